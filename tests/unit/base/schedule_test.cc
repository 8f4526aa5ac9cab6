#include "runtime/base/schedule.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

// Wednesday, 2026-01-14 10:20:30 UTC.
constexpr int64_t kNow = 1768386030;
constexpr int64_t kMidnight = 1768348800;  // midnight before kNow
constexpr int64_t kDay = 86400;

int64_t After(const char* text, int64_t now = kNow) {
  const auto schedule = Schedule::Parse(text);
  EXPECT_TRUE(schedule) << text;
  return schedule ? schedule->After(now) : -1;
}

TEST(Schedule, Intervals) {
  EXPECT_EQ(After("@every 1s"), kNow + 1);
  EXPECT_EQ(After("@every 90s"), kNow + 90);
  EXPECT_EQ(After("@every 1h30m"), kNow + 5400);
}

TEST(Schedule, Fields) {
  EXPECT_EQ(After("* * * * *"), kMidnight + 10 * 3600 + 21 * 60);
  EXPECT_EQ(After("*/15 * * * *"), kMidnight + 10 * 3600 + 30 * 60);
  EXPECT_EQ(After("5,50-52 * * * *"), kMidnight + 10 * 3600 + 50 * 60);
  EXPECT_EQ(After("20 10 * * *"), kMidnight + kDay + 10 * 3600 + 20 * 60);
  EXPECT_EQ(After("0 8/4 * * *"), kMidnight + 12 * 3600);
  EXPECT_EQ(After("0 0 * * mon-fri"), kMidnight + kDay);
  EXPECT_EQ(After("0 0 ? * SUN"), kMidnight + 4 * kDay);
  EXPECT_EQ(After("0 0 * * 7"), kMidnight + 4 * kDay);
  EXPECT_EQ(After("0 0 1 feb *"), kMidnight + 18 * kDay);
}

TEST(Schedule, Shorthands) {
  EXPECT_EQ(After("@hourly"), kMidnight + 11 * 3600);
  EXPECT_EQ(After("@daily"), kMidnight + kDay);
  EXPECT_EQ(After("@weekly"), kMidnight + 4 * kDay);
  EXPECT_EQ(After("@monthly"), kMidnight + 18 * kDay);
  EXPECT_EQ(After("@yearly"), kMidnight + 352 * kDay);
}

// crontab(5): a restricted day of the month and a restricted day of the week are alternatives.
TEST(Schedule, EitherDay) {
  EXPECT_EQ(After("0 0 20 * fri"), kMidnight + 2 * kDay);
  EXPECT_EQ(After("0 0 15 * fri"), kMidnight + kDay);
}

TEST(Schedule, RareDays) {
  // 2100 is not a leap year, so after 2096 the next leap day is in 2104.
  EXPECT_EQ(After("0 0 29 2 *", 3981744000), 4233686400);
}

TEST(Schedule, Nonsense) {
  for (const char* text : {"",
                           " ",
                           "@every",
                           "@every ",
                           "@every 0s",
                           "@every 1.5s",
                           "@every -1s",
                           "@every 5",
                           "@reboot",
                           "@every 10000h",
                           "* * * *",
                           "* * * * * *",
                           "60 * * * *",
                           "* 24 * * *",
                           "* * 0 * *",
                           "* * * 13 *",
                           "* * * * 8",
                           "5-1 * * * *",
                           "*/0 * * * *",
                           "a * * * *",
                           "1,,2 * * * *",
                           "1- * * * *",
                           "-1 * * * *",
                           "* * * * mo",
                           "0 0 30 2 *",
                           "0 0 31 4,6,9,11 *",
                           "99999999999 * * * *",
                           "@every 99999999999h",
                           "/5 * * * *"}) {
    const auto schedule = Schedule::Parse(text);
    ASSERT_FALSE(schedule) << text;
    EXPECT_EQ(schedule.error().code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace atl
