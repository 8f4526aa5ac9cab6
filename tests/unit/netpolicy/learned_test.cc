#include "netpolicy/rules/learned.h"

#include <gtest/gtest.h>

namespace atl::netpolicy {
namespace {

LearnedKey Key(unsigned number, std::optional<PortKey> port = std::nullopt) {
  return {
      *ParseIpAddress("203.0." + std::to_string(number / 256) + "." + std::to_string(number % 256)),
      port};
}

TEST(Learned, IsDueWhenItIsNewOrEndsTooEarly) {
  Learned learned;
  EXPECT_TRUE(learned.IsDue(Key(1), 10));
  EXPECT_FALSE(learned.Add(Key(1), {"a", 10}));
  EXPECT_FALSE(learned.IsDue(Key(1), 10));
  EXPECT_TRUE(learned.IsDue(Key(1), 11));
  EXPECT_TRUE(learned.IsDue(Key(1, PortKey{Transport::kTcp, 22}), 10)) << "a port is another key";
}

TEST(Learned, LosesWhatExpiresFirst) {
  Learned learned;
  for (unsigned i = 0; i < Learned::kMost; ++i) {
    EXPECT_FALSE(learned.Add(Key(i), {"a", i == 7 ? 1 : 100}));
  }
  EXPECT_FALSE(learned.Add(Key(3), {"b", 200})) << "known: nothing has to go";
  EXPECT_EQ(learned.Add(Key(5000), {"c", 100}), Key(7));
  EXPECT_FALSE(learned.Has(Key(7)));
  EXPECT_EQ(learned.entries().size(), Learned::kMost);
}

// A flow may begin after the kernel has the address and before Learned has it. Another thread that
// judges the flow then must find the key.
TEST(Learned, TellsOthersWhatIsThereNow) {
  Learned learned;
  const auto keys = learned.keys();
  learned.Expect(Key(1));
  EXPECT_TRUE(keys->Has(Key(1)));
  EXPECT_FALSE(learned.Has(Key(1)));
  learned.Add(Key(1), {"a", 10});
  learned.Add(Key(1), {"a", 20});
  EXPECT_TRUE(keys->Has(Key(1)));
  learned.Remove(Key(1));
  EXPECT_FALSE(keys->Has(Key(1)));
  learned.Expect(Key(2));
  learned.Remove(Key(2));
  EXPECT_FALSE(keys->Has(Key(2)));
}

TEST(Learned, KnowsTheNameOfAnAddress) {
  Learned learned;
  learned.Add(Key(1), {"any.example", 1});
  learned.Add(Key(2, PortKey{Transport::kUdp, 53}), {"port.example", 1});
  EXPECT_EQ(learned.NameOf(Key(1).address), "any.example");
  EXPECT_EQ(learned.NameOf(Key(2).address), "port.example");
  EXPECT_EQ(learned.NameOf(Key(3).address), "");
}

}  // namespace
}  // namespace atl::netpolicy
