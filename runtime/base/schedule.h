// A recurring schedule: five cron fields or a shorthand, in the syntax of crontab(5) and of
// OpenSandbox's lifecycle hooks.
//
//   "*/15 8-18 * * mon-fri"   minute hour day-of-month month day-of-week; lists, ranges, steps
//   "@hourly"                 also @daily, @midnight, @weekly, @monthly, @yearly, @annually
//   "@every 30s"              s, m and h, also combined: "1h30m"; whole seconds, at least 1
//
// Times are UTC. If both kinds of days are restricted, either one suffices (crontab(5)).
//
// Thread rule: a plain object.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl {

class Schedule {
 public:
  // kInvalidArgument: malformed, or no day ever matches. The message quotes the text.
  static Result<Schedule> Parse(std::string_view text);

  // Returns the first matching time after `unix_seconds`, in the same unit. "@every" counts from
  // `unix_seconds`.
  int64_t After(int64_t unix_seconds) const;

 private:
  bool HasDay(int64_t day) const;

  int64_t every_seconds_ = 0;  // if not 0, the other members are unused
  uint64_t minutes_ = 0;       // one bit for each number
  uint64_t hours_ = 0;
  uint64_t days_ = 0;      // days of the month
  uint64_t months_ = 0;    // 1 to 12
  uint64_t weekdays_ = 0;  // 0 is Sunday
  bool any_day_ = false;
  bool any_weekday_ = false;
};

}  // namespace atl
