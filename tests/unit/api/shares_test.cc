// The share of each tenant in the requests in flight, and its rates, by a clock of the test's.
#include "runtime/api/gate/shares.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/sandbox/fakes.h"

namespace atl::api {
namespace {

class SharesTest : public testing::Test {
 protected:
  SharesTest() {
    tenants::Tenant red;
    red.name = "red";
    tenants::Tenant blue;
    blue.name = "blue";
    blue.max = {.creates_per_second = 0.1, .requests_per_second = 4};
    tenants.Replace({red, blue});
  }
  static tenants::Caller By(const std::string& tenant) {
    return {.tenant = tenant, .key_id = "k", .role = tenants::Role::kDeveloper};
  }
  // Takes places of the tenant until one is refused, at most `most`. Returns their number.
  size_t Fill(const std::string& tenant, size_t most) {
    for (size_t count = 0; count < most; ++count) {
      auto place = shares.Enter(By(tenant));
      if (!place) return count;
      places.push_back(*std::move(place));
    }
    return most;
  }

  sandbox::FakeClock clock;
  tenants::TenantTable tenants;
  Shares shares{clock, tenants, 10};
  std::vector<Shares::Place> places;
};

TEST_F(SharesTest, AFloodLeavesOthersTheirShare) {
  EXPECT_EQ(Fill("red", 100), 10U);
  const auto refused = shares.Enter(By("red"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 503);
  EXPECT_GT(refused.error().retry_after_seconds, 0);
  EXPECT_EQ(Fill("blue", 4), 4U);
  clock.Advance(1'000'000);
  EXPECT_EQ(Fill("blue", 4), 1U);
  // The host is no tenant.
  EXPECT_TRUE(shares.Enter({}));
  places.clear();
  EXPECT_EQ(Fill("red", 100), 10U);
}

TEST_F(SharesTest, APlaceMayOutliveTheShares) {
  auto others = std::make_unique<Shares>(clock, tenants, 1);
  auto place = others->Enter(By("red"));
  ASSERT_TRUE(place);
  EXPECT_FALSE(others->Enter(By("red")));
  others.reset();
  place->reset();
}

TEST_F(SharesTest, RatesAllowABurstAndSayWhenToComeAgain) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(shares.Enter(By("blue"))) << i;
  const auto refused = shares.Enter(By("blue"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 429);
  EXPECT_EQ(refused.error().code, "SANDBOX::TOO_MANY");
  EXPECT_EQ(refused.error().retry_after_seconds, 1);
  EXPECT_EQ(refused.error().message,
            "the quota requests_per_second of tenant blue is 4; come again later");
  clock.Advance(250'000);
  EXPECT_TRUE(shares.Enter(By("blue")));
  EXPECT_FALSE(shares.Enter(By("blue")));
  EXPECT_TRUE(shares.Enter(By("red")));
}

TEST_F(SharesTest, CreatesCountByTheirNumber) {
  EXPECT_TRUE(shares.CountCreates(By("blue"), 1));
  auto refused = shares.CountCreates(By("blue"), 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry_after_seconds, 10);
  // A fork of more than the bucket holds passes a full bucket, and its debt is paid afterwards.
  clock.Advance(10'000'000);
  EXPECT_TRUE(shares.CountCreates(By("blue"), 3));
  refused = shares.CountCreates(By("blue"), 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().retry_after_seconds, 30);
  EXPECT_TRUE(shares.CountCreates(By("red"), 1000));
}

TEST_F(SharesTest, AWeightIsAShareAndAMissingLimitNone) {
  tenants::Tenant heavy;
  heavy.name = "heavy";
  heavy.weight = 4;
  tenants::Tenant light;
  light.name = "light";
  tenants.Replace({heavy, light});
  EXPECT_EQ(Fill("light", 100), 10U);
  EXPECT_EQ(Fill("heavy", 100), 8U);
  // A share is at least one.
  shares.SetLimit(1);
  EXPECT_EQ(Fill("heavy", 100), 0U);
  places.clear();
  EXPECT_EQ(Fill("light", 100), 1U);
  EXPECT_EQ(Fill("heavy", 100), 1U);
  shares.SetLimit(0);
  EXPECT_EQ(Fill("light", 100), 100U);
}

TEST_F(SharesTest, ARefusedRequestLeavesTheKeyItsToken) {
  tenants::Caller narrow = By("blue");
  narrow.narrowing = std::make_shared<const tenants::Narrowing>(
      tenants::Narrowing{.max = {.requests_per_second = 0.5}});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(shares.Enter(By("blue"))) << i;
  for (int i = 0; i < 10; ++i) ASSERT_FALSE(shares.Enter(narrow)) << i;
  clock.Advance(250'000);
  EXPECT_TRUE(shares.Enter(narrow));
}

TEST(Rates, TheTableForgetsWhatIsFull) {
  sandbox::FakeClock clock;
  tenants::Rates rates(clock);
  for (size_t i = 0; i < 3 * tenants::Rates::kMostIdle; ++i) {
    ASSERT_EQ(rates.Take("key " + std::to_string(i), 1), 0);
    ASSERT_LE(rates.size(), tenants::Rates::kMostIdle + 1);
    clock.Advance(1'000'000);
  }
  EXPECT_EQ(rates.Take("slow", 0.001), 0);
  for (size_t i = 0; i < 2 * tenants::Rates::kMostIdle; ++i) {
    rates.Take("other " + std::to_string(i), 1000);
    clock.Advance(10);
  }
  EXPECT_GT(rates.Take("slow", 0.001), 0);
}

TEST_F(SharesTest, AKeyMayBeSlowerThanItsTenant) {
  tenants::Caller narrow = By("red");
  narrow.narrowing = std::make_shared<const tenants::Narrowing>(
      tenants::Narrowing{.max = {.requests_per_second = 1}});
  EXPECT_TRUE(shares.Enter(narrow));
  EXPECT_FALSE(shares.Enter(narrow));
  EXPECT_TRUE(shares.Enter(By("red")));
}

}  // namespace
}  // namespace atl::api
