// The event stream of commands, sessions and code. Each event is one JSON object and an empty line,
// without SSE field names. The bytes are those that the OpenSandbox clients expect.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "execd/http/exchange.h"

namespace atl::execd {

void AppendTextEvent(std::string* out, std::string_view type, std::string_view text,
                     int64_t unix_ms);
// Write a text event in two parts. The caller appends the JSON text of member `member` between
// them.
void BeginEvent(std::string* out, std::string_view type, std::string_view member);
void EndTextEvent(std::string* out, int64_t unix_ms);
void AppendCompleteEvent(std::string* out, int64_t took_ms, int64_t unix_ms);
// Appends the error of a command. `value` is the exit code in decimal, or the reason why it did not
// start.
void AppendCommandError(std::string* out, std::string_view value, std::string_view traceback,
                        int64_t unix_ms);

// Interval of pings on a stream without other events.
inline constexpr int64_t kEventPingUs = 3'000'000;
// Headers of every event stream.
const HeaderList& EventStreamHeaders();

}  // namespace atl::execd
