// A time as text, as RFC 3339 has it, in UTC: 2026-11-21T12:00:00.5Z. Not by gmtime_r and snprintf,
// which together were a twentieth of a GET of a sandbox. Allocates nothing.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace atl {

// What is not of the years 0 to 9999 is shown as the first or the last second of these: a sandbox's
// file may be of any year.
class UtcTime {
 public:
  // `digits` of the fraction, 0 to 9; those of `nanoseconds` that are behind them are cut off.
  UtcTime(int64_t unix_seconds, int64_t nanoseconds, size_t digits);
  // As long as this is.
  std::string_view text() const { return {text_, size_}; }

 private:
  void Put(int64_t number, size_t width, char behind);

  char text_[sizeof "9999-12-31T23:59:59.999999999Z"];
  size_t size_ = 0;
};

}  // namespace atl
