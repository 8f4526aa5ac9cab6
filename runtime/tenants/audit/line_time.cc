#include "runtime/tenants/audit/line_time.h"

#include <charconv>
#include <chrono>

namespace atl::audit {

int64_t UnixMicrosOf(std::string_view time) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000000Z";
  if (time.size() != kForm.size()) return 0;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = time[i] >= '0' && time[i] <= '9';
    if (kForm[i] == '0' ? !digit : time[i] != kForm[i]) return 0;
  }
  const auto number = [time](size_t at, size_t size) {
    int value = 0;
    std::from_chars(time.data() + at, time.data() + at + size, value);
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  if (!day.ok()) return 0;
  const int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  const int64_t seconds = days * 86'400 + number(11, 2) * 3600 + number(14, 2) * 60 + number(17, 2);
  return seconds * 1'000'000 + number(20, 6);
}

}  // namespace atl::audit
