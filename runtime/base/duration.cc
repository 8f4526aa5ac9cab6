#include "runtime/base/duration.h"

#include <charconv>

namespace atl {
namespace {

constexpr int64_t kLongest = int64_t{100} * 365 * 86400;

int64_t SecondsOf(char unit) {
  return unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86400 : 0;
}

}  // namespace

std::optional<int64_t> ParseDuration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  int64_t seconds = 0;
  // Units get smaller from left to right: "1h30m", not "30m1h".
  int64_t last = INT64_MAX;
  while (!text.empty()) {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0 || number > kLongest) return std::nullopt;
    const bool bare = last == INT64_MAX && rest == text.data() + text.size();
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    const int64_t unit = bare ? 1 : text.empty() ? 0 : SecondsOf(text.front());
    if (unit == 0 || unit >= last) return std::nullopt;
    if (!text.empty()) text.remove_prefix(1);
    last = unit;
    seconds += number * unit;
    if (seconds > kLongest) return std::nullopt;
  }
  return seconds;
}

std::string DurationText(int64_t seconds) {
  for (const char unit : {'d', 'h', 'm'}) {
    const int64_t whole = SecondsOf(unit);
    if (seconds >= whole && seconds % whole == 0) return std::to_string(seconds / whole) + unit;
  }
  return std::to_string(seconds) + "s";
}

}  // namespace atl
