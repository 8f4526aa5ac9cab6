#include "runtime/base/utc_time.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace atl {
namespace {

std::string Shown(int64_t seconds, int64_t nanoseconds = 0, size_t digits = 0) {
  return std::string(UtcTime(seconds, nanoseconds, digits).text());
}

TEST(UtcTime, DaysOfEveryKind) {
  EXPECT_EQ(Shown(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(Shown(-1), "1969-12-31T23:59:59Z");
  EXPECT_EQ(Shown(951'782'400), "2000-02-29T00:00:00Z");
  EXPECT_EQ(Shown(1'763'303'445), "2025-11-16T14:30:45Z");
}

TEST(UtcTime, AFractionIsCutOff) {
  EXPECT_EQ(Shown(0, 999'999'999, 9), "1970-01-01T00:00:00.999999999Z");
  EXPECT_EQ(Shown(0, 7'000'999, 6), "1970-01-01T00:00:00.007000Z");
  EXPECT_EQ(Shown(0, 7'999'999, 3), "1970-01-01T00:00:00.007Z");
  EXPECT_EQ(Shown(0, 999'999'999, 1), "1970-01-01T00:00:00.9Z");
}

TEST(UtcTime, YearsThatFit) {
  EXPECT_EQ(Shown(-62'167'219'200), "0000-01-01T00:00:00Z");
  EXPECT_EQ(Shown(253'402'300'799), "9999-12-31T23:59:59Z");
  EXPECT_EQ(Shown(INT64_MIN), "0000-01-01T00:00:00Z");
  EXPECT_EQ(Shown(INT64_MAX), "9999-12-31T23:59:59Z");
}

}  // namespace
}  // namespace atl
