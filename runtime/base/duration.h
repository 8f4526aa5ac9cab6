// Durations as people type them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl {

// Parses "90", "90s", "5m", "2h", "1d" or "1h30m" to seconds. Nothing: another form, or more than a
// hundred years.
std::optional<int64_t> ParseDuration(std::string_view text);

// Returns the shortest text that ParseDuration reads as `seconds`: "90s", "5m", "1d".
std::string DurationText(int64_t seconds);

}  // namespace atl
