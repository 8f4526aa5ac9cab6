// JSON of requests and answers. Request bodies are hostile.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/http/message.h"

namespace atl::api {

http::Response JsonResponse(int status, const nlohmann::json& body);

// Parses a request body. Refuses with 422 a body that is not JSON, or that is nested deeper than
// any request of the API, because the library's writer recurses.
Parsed<nlohmann::json> ParseBody(const std::string& text);

// Formats a time as 2026-11-21T12:00:00Z, with microseconds only if they are not zero.
std::string FormatTime(int64_t unix_ms);
// Parses RFC 3339 with 'T' or a space; fraction and offset are optional (default: UTC). False:
// `text` is not a time.
bool ParseTime(std::string_view text, int64_t* unix_ms);

}  // namespace atl::api
