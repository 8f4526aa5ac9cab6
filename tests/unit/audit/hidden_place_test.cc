#include "runtime/tenants/audit/hidden_place.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/tenants/audit/audit_line.h"

namespace atl::audit {
namespace {

TEST(HiddenPlace, IsFoundAgainAndTellsNoOrder) {
  const HiddenPlace red("key of red"), blue("key of blue");
  std::set<uint64_t> seen;
  size_t rising = 0;
  uint64_t last = 0;
  constexpr uint64_t kLines = 2000;
  for (uint64_t seq = 1; seq <= kLines; ++seq) {
    const uint64_t hidden = red.Hide(seq);
    EXPECT_EQ(red.Find(hidden), seq);
    EXPECT_LT(hidden, uint64_t{1} << HiddenPlace::kBits);
    EXPECT_NE(hidden, blue.Hide(seq));
    EXPECT_NE(blue.Find(hidden), seq);
    seen.insert(hidden);
    if (hidden > last) ++rising;
    last = hidden;
  }
  EXPECT_EQ(seen.size(), kLines);
  EXPECT_GT(rising, kLines * 4 / 10);
  EXPECT_LT(rising, kLines * 6 / 10);
  EXPECT_EQ(red.Hide(0), 0U);
  EXPECT_EQ(red.Find(0), 0U);
}

TEST(HiddenPlace, LeavesNothingOfTheChainInALine) {
  LineFormatter formatter;
  const Event event{.action = "exec.command",
                    .outcome = "success",
                    .target = {.kind = "sandbox", .id = "\",\"prev\":\"x\",\"seq\":77"}};
  const std::string line(formatter.Format(event, {.seq = 4711, .boot = "b0", .prev = kNoHash}));
  const HiddenPlace hidden("key");
  const std::string shown = hidden.LineOf(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_EQ(shown.find("4711"), std::string::npos) << shown;
  EXPECT_EQ(shown.find(formatter.hash()), std::string::npos) << shown;
  EXPECT_EQ(shown.find(kNoHash), std::string::npos) << shown;
  EXPECT_TRUE(shown.starts_with("{\"v\":1,\"seq\":" + std::to_string(hidden.Hide(4711)) + ","));
  EXPECT_TRUE(shown.ends_with(R"(prev\":\"x\",\"seq\":77"}})")) << shown;
  EXPECT_EQ(hidden.LineOf("{}"), "");
  EXPECT_EQ(hidden.LineOf(""), "");
}

}  // namespace
}  // namespace atl::audit
