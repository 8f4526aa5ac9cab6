#include "runtime/base/utc_time.h"

#include <algorithm>
#include <chrono>

namespace atl {
namespace {

constexpr int64_t kFirst = -62'167'219'200;  // 0000-01-01T00:00:00Z
constexpr int64_t kLast = 253'402'300'799;   // 9999-12-31T23:59:59Z

}  // namespace

UtcTime::UtcTime(int64_t unix_seconds, int64_t nanoseconds, size_t digits) {
  const std::chrono::sys_seconds time{
      std::chrono::seconds(std::clamp(unix_seconds, kFirst, kLast))};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  Put(static_cast<int>(date.year()), 4, '-');
  Put(static_cast<unsigned>(date.month()), 2, '-');
  Put(static_cast<unsigned>(date.day()), 2, 'T');
  Put(clock.hours().count(), 2, ':');
  Put(clock.minutes().count(), 2, ':');
  Put(clock.seconds().count(), 2, digits == 0 ? 'Z' : '.');
  if (digits == 0) return;
  for (size_t more = digits; more < 9; ++more) nanoseconds /= 10;
  Put(nanoseconds, digits, 'Z');
}

void UtcTime::Put(int64_t number, size_t width, char behind) {
  for (size_t at = width; at > 0; --at) {
    text_[size_ + at - 1] = static_cast<char>('0' + number % 10);
    number /= 10;
  }
  size_ += width;
  text_[size_++] = behind;
}

}  // namespace atl
