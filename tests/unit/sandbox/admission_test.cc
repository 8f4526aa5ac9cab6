#include "runtime/sandbox/create/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace atl::sandbox {
namespace {

TEST(Admission, RunsTwoAtOnceAndTheRestInOrder) {
  Admission admission(2, 10);
  std::string order;
  for (char name : std::string("abcde")) {
    ASSERT_TRUE(admission.Enter("", [&order, name] { order.push_back(name); }));
  }
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(admission.active(), 2U);
  EXPECT_EQ(admission.waiting(), 3U);
  admission.Leave("");
  EXPECT_EQ(order, "abc");
  admission.Leave("");
  admission.Leave("");
  EXPECT_EQ(order, "abcde");
  EXPECT_FALSE(admission.idle());
  admission.Leave("");
  admission.Leave("");
  EXPECT_TRUE(admission.idle());
}

TEST(Admission, AFullQueueIsRefused) {
  Admission admission(1, 2);
  int runs = 0;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(admission.Enter("", [&] { ++runs; }));
  const auto refused = admission.Enter("", [&] { ++runs; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  for (int i = 0; i < 3; ++i) admission.Leave("");
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(admission.Enter("", [&] { ++runs; }));
}

TEST(Admission, RunsThatLeaveAtOnceDoNotRecurse) {
  Admission admission(1, 200000);
  int runs = 0;
  ASSERT_TRUE(admission.Enter("", [] {}));
  for (int i = 0; i < 200000; ++i) {
    ASSERT_TRUE(admission.Enter("", [&] {
      ++runs;
      admission.Leave("");
    }));
  }
  admission.Leave("");
  EXPECT_EQ(runs, 200000);
  EXPECT_TRUE(admission.idle());
}

// Builds of tenants, in the order in which they are begun.
class FairAdmission : public testing::Test {
 protected:
  bool Enter(Admission& admission, const std::string& tenant) {
    return admission.Enter(tenant, [this, tenant] { order.push_back(tenant); }).has_value();
  }
  // Ends the oldest builds, one after the other.
  void End(Admission& admission, size_t count) {
    for (; count > 0; --count) admission.Leave(order[ended++]);
  }
  std::string Order() const {
    std::string text;
    for (const std::string& tenant : order) text += tenant;
    return text;
  }
  std::vector<std::string> order;
  size_t ended = 0;
};

TEST_F(FairAdmission, ANewcomerWaitsForNoMoreThanTheBuildsInProgress) {
  Admission admission(2, 1000);
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(Enter(admission, "a"));
  ASSERT_EQ(Order(), "aa");
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Enter(admission, "b"));
    // The first build to end gives its turn to b.
    const size_t before = order.size();
    End(admission, 1);
    ASSERT_EQ(order[before], "b");
    // Two builds of a were in progress; b's own ends, and the turns are a's until b comes again.
    End(admission, 1 + static_cast<size_t>(i % 5));
  }
}

TEST_F(FairAdmission, TurnsFollowTheWeights) {
  Admission admission(1, 1000, [](const std::string& tenant) { return tenant == "a" ? 3U : 1U; });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Enter(admission, "a"));
    ASSERT_TRUE(Enter(admission, "b"));
  }
  End(admission, 40);
  const auto of_a = static_cast<size_t>(std::count(order.begin(), order.end(), "a"));
  EXPECT_NEAR(static_cast<double>(of_a), 30, 1);
}

TEST_F(FairAdmission, AnIdleTenantSavesUpNoTurns) {
  Admission admission(1, 1000);
  ASSERT_TRUE(Enter(admission, "b"));
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Enter(admission, "a"));
  End(admission, 100);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Enter(admission, "b"));
  const size_t from = order.size();
  End(admission, 20);
  const auto of_b = static_cast<size_t>(
      std::count(order.begin() + static_cast<ptrdiff_t>(from), order.end(), "b"));
  EXPECT_NEAR(static_cast<double>(of_b), 10, 1);
}

TEST_F(FairAdmission, AFullQueueKeepsTheSharesOfOthers) {
  Admission admission(1, 10);
  for (int i = 0; i < 11; ++i) ASSERT_TRUE(Enter(admission, "a"));
  ASSERT_FALSE(Enter(admission, "a"));
  // Half of the queue is b's, and no more than that.
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Enter(admission, "b")) << i;
  EXPECT_FALSE(Enter(admission, "b"));
  EXPECT_FALSE(Enter(admission, "a"));
  EXPECT_EQ(admission.waiting(), 15U);
  End(admission, 16);
  EXPECT_TRUE(admission.idle());
  EXPECT_EQ(Order().size(), 16U);
  // The flood leaves nothing behind.
  EXPECT_TRUE(Enter(admission, "a"));
}

// Random arrivals and ends against a model of what must hold at all times.
TEST_F(FairAdmission, NobodyStarvesAndNothingIsLost) {
  std::mt19937 random(7);
  const std::map<std::string, uint32_t> weights = {{"a", 1}, {"b", 2}, {"c", 5}};
  Admission admission(2, 30, [&](const std::string& tenant) { return weights.at(tenant); });
  const std::string names[] = {"a", "b", "c"};
  std::map<std::string, size_t> entered;
  std::vector<std::string> active;
  size_t begun = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string& tenant = names[random() % 3];
    if (random() % 3 != 0) {
      if (Enter(admission, tenant)) ++entered[tenant];
    } else if (!active.empty()) {
      const size_t at = random() % active.size();
      const std::string done = active[at];
      active.erase(active.begin() + static_cast<ptrdiff_t>(at));
      admission.Leave(done);
    }
    for (; begun < order.size(); ++begun) active.push_back(order[begun]);
    ASSERT_EQ(admission.active(), active.size());
    ASSERT_LE(active.size(), 2U);
    ASSERT_TRUE(active.size() == 2 || admission.waiting() == 0) << "a turn is free, and one waits";
    size_t all = 0;
    for (const auto& [name, count] : entered) all += count;
    ASSERT_EQ(all, order.size() + admission.waiting());
  }
  while (!active.empty()) {
    admission.Leave(active.back());
    active.pop_back();
    for (; begun < order.size(); ++begun) active.push_back(order[begun]);
  }
  EXPECT_TRUE(admission.idle());
  for (const auto& [name, count] : entered) {
    EXPECT_EQ(static_cast<size_t>(std::count(order.begin(), order.end(), name)), count) << name;
  }
}

}  // namespace
}  // namespace atl::sandbox
