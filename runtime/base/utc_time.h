// A time as RFC 3339 text in UTC: 2026-11-21T12:00:00.5Z. gmtime_r and snprintf are not used,
// because they took a twentieth of the time of a GET of a sandbox. Does not allocate.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace atl {

// Times outside of the years 0 to 9999 become the first or last second of that range: a sandbox's
// file may have any time.
class UtcTime {
 public:
  // `digits` of the fraction, 0 to 9. Further digits of `nanoseconds` are cut off.
  UtcTime(int64_t unix_seconds, int64_t nanoseconds, size_t digits);
  // Valid as long as this object.
  std::string_view text() const { return {text_, size_}; }

 private:
  void Put(int64_t number, size_t width, char behind);

  char text_[sizeof "9999-12-31T23:59:59.999999999Z"];
  size_t size_ = 0;
};

}  // namespace atl
