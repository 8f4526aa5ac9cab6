// The event stream of commands, sessions and code: one JSON object and an empty line for each
// event, no SSE field names. Byte for byte what the OpenSandbox clients were made against.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "execd/http/exchange.h"

namespace atl::execd {

void AppendTextEvent(std::string* out, std::string_view type, std::string_view text,
                     int64_t unix_ms);
// The same in two halves, with what is written as JSON text between them in member `member`.
void BeginEvent(std::string* out, std::string_view type, std::string_view member);
void EndTextEvent(std::string* out, int64_t unix_ms);
void AppendCompleteEvent(std::string* out, int64_t took_ms, int64_t unix_ms);
// The error of a command: `value` is the exit code in decimal, or what kept it from starting.
void AppendCommandError(std::string* out, std::string_view value, std::string_view traceback,
                        int64_t unix_ms);

// A stream that has nothing to say sends a ping so often.
inline constexpr int64_t kEventPingUs = 3'000'000;
// The headers of every event stream.
const HeaderList& EventStreamHeaders();

}  // namespace atl::execd
