#include "runtime/api/gate/json.h"

#include <gtest/gtest.h>

namespace atl::api {
namespace {

TEST(Time, Format) {
  EXPECT_EQ(FormatTime(1763303445000), "2025-11-16T14:30:45Z");
  EXPECT_EQ(FormatTime(1763303445007), "2025-11-16T14:30:45.007000Z");
  EXPECT_EQ(FormatTime(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatTime(-1), "1969-12-31T23:59:59.999000Z");
}

TEST(Time, RoundTrip) {
  for (int64_t ms :
       {int64_t{0}, int64_t{1763303445007}, int64_t{253402300799999}, int64_t{-86400000}}) {
    int64_t parsed = 1;
    ASSERT_TRUE(ParseTime(FormatTime(ms), &parsed));
    EXPECT_EQ(parsed, ms);
  }
}

}  // namespace
}  // namespace atl::api
