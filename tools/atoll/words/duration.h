// Durations as people type them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::cli {

// Seconds of "90", "90s", "5m", "2h", "1d" or "1h30m". Nothing: `text` is none of these, or more
// than a hundred years.
std::optional<int64_t> ParseDuration(std::string_view text);

// The shortest text that ParseDuration reads as `seconds`: "90s", "5m", "1d".
std::string DurationText(int64_t seconds);

}  // namespace atl::cli
