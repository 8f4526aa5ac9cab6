// When something is done again and again: five cron fields or a shorthand, as crontab(5) and
// OpenSandbox's lifecycle hooks write them.
//
//   "*/15 8-18 * * mon-fri"   minute hour day-of-month month day-of-week; lists, ranges, steps
//   "@hourly"                 also @daily, @midnight, @weekly, @monthly, @yearly, @annually
//   "@every 30s"              s, m and h, also together: "1h30m"; whole seconds, at least 1
//
// Times are UTC. If both days are restricted, either is enough (crontab(5)).
//
// Thread rule: a plain object.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl {

class Schedule {
 public:
  // kInvalidArgument: it is none, or no day ever comes that it names. The message quotes the text.
  static Result<Schedule> Parse(std::string_view text);

  // The first moment of it after `unix_seconds`, in the same unit. Of "@every" counted from there.
  int64_t After(int64_t unix_seconds) const;

 private:
  bool HasDay(int64_t day) const;

  int64_t every_seconds_ = 0;  // not 0: nothing else counts
  uint64_t minutes_ = 0;       // a bit for each number that is named
  uint64_t hours_ = 0;
  uint64_t days_ = 0;      // of the month
  uint64_t months_ = 0;    // 1 to 12
  uint64_t weekdays_ = 0;  // 0 is Sunday
  bool any_day_ = false;
  bool any_weekday_ = false;
};

}  // namespace atl
