// Writes the heads of messages. Thread rule: pure functions, except DateField (the loop's thread).
#pragma once

#include <string>
#include <string_view>

#include "runtime/http/message.h"

namespace atl::http {

std::string_view ReasonPhrase(int status);

// Appends "HTTP/1.1 200 OK\r\n". An empty reason means the standard one.
void AppendStatusLine(int status, std::string_view reason, std::string* out);
void AppendField(std::string_view name, std::string_view value, std::string* out);
void AppendNumberField(std::string_view name, uint64_t value, std::string* out);
// Appends "1a\r\n", the line before a chunk.
void AppendChunkSize(size_t size, std::string* out);

// Returns "Date: …\r\n" of the current second. Formatted once a second.
std::string_view DateField();

// Returns {"code":…,"message":…}, the form of the API's errors. Both texts must need no escapes.
Response ErrorResponse(int status, std::string_view code, std::string_view message);

}  // namespace atl::http
