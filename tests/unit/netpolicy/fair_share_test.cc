#include "netpolicy/address/fair_share.h"

#include <gtest/gtest.h>

namespace atl::netpolicy {
namespace {

TEST(FairShare, IsAnEighthOfWhatIsLeft) {
  EXPECT_EQ(FairShare(256, 0), 32U);
  EXPECT_EQ(FairShare(256, 128), 16U);
  EXPECT_EQ(FairShare(256, 255), 1U) << "one as long as there is any";
  EXPECT_EQ(FairShare(256, 256), 0U);
  EXPECT_EQ(FairShare(256, 300), 0U);
}

TEST(FairShares, LeaveSomethingToTheNextOne) {
  FairShares shares(256);
  for (int source = 0; source < 30; ++source) {
    int taken = 0;
    while (shares.Take("greedy" + std::to_string(source))) ++taken;
    EXPECT_GE(taken, 1) << source;
    EXPECT_LE(taken, 32) << source;
  }
  EXPECT_TRUE(shares.Take("modest"));
}

TEST(FairShares, TakeBack) {
  FairShares shares(2);
  EXPECT_TRUE(shares.Take("a"));
  EXPECT_FALSE(shares.Take("a"));
  EXPECT_TRUE(shares.Take("b"));
  EXPECT_FALSE(shares.Take("c"));
  shares.Give("b");
  EXPECT_TRUE(shares.Take("c"));
  shares.Clear();
  EXPECT_TRUE(shares.Take("a"));
}

}  // namespace
}  // namespace atl::netpolicy
