#include "netpolicy/policy/denials.h"

#include <gtest/gtest.h>

namespace atl::netpolicy {
namespace {

Denial Of(const std::string& name) {
  return {.time_ms = 1, .hostname = name, .protocol = "dns", .reason = "policy"};
}

TEST(Denials, TheSameInARowIsOne) {
  Denials denials;
  EXPECT_TRUE(denials.Add(Of("a"), 1));
  EXPECT_FALSE(denials.Add(Of("a"), 2));
  EXPECT_TRUE(denials.Add(Of("b"), 3));
  EXPECT_TRUE(denials.Add(Of("a"), 4));
  ASSERT_EQ(denials.recent().size(), 3U);
  EXPECT_EQ(denials.recent()[0].count, 2U);
  EXPECT_EQ(denials.by_name(), 4U);
}

TEST(Denials, TooManyAreOnlyCounted) {
  Denials denials;
  int news = 0;
  for (int i = 0; i < 1000; ++i) news += denials.Add(Of(std::to_string(i)), 1) ? 1 : 0;
  EXPECT_EQ(news, Denials::kBurst);
  EXPECT_EQ(denials.by_name(), 1000U);
  // Half a second later, half of a second's budget is available.
  for (int i = 0; i < 1000; ++i) news += denials.Add(Of(std::to_string(i)), 500'001) ? 1 : 0;
  EXPECT_EQ(news, Denials::kBurst + Denials::kPerSecond / 2);
}

TEST(Denials, KeepsTheLatest) {
  Denials denials;
  int64_t now = 1;
  for (size_t i = 0; i < Denials::kKept + 5; ++i) {
    EXPECT_TRUE(denials.Add(Of(std::to_string(i)), now += 1'000'000));
  }
  EXPECT_EQ(denials.recent().size(), Denials::kKept);
  EXPECT_EQ(denials.recent().front().hostname, "5");
}

TEST(Denials, PacketsAreTheKernelsToCount) {
  Denials denials;
  Denial packet = Of("a");
  packet.by_rules = true;
  EXPECT_TRUE(denials.Add(packet, 1));
  EXPECT_EQ(denials.by_name(), 0U);
}

}  // namespace
}  // namespace atl::netpolicy
