#include "netpolicy/rules/named_networks.h"

#include <gtest/gtest.h>

namespace atl::netpolicy {
namespace {

TEST(NamedNetworks, AMemberIsFoundInItsNetworkOnly) {
  NamedNetworks networks;
  const uint32_t web = networks.Join("web", "db", 1);
  EXPECT_EQ(networks.Join("web", "front", 2), web);
  const uint32_t other = networks.Join("other", "db", 3);
  EXPECT_NE(other, web);
  ASSERT_NE(networks.Find("web", "db"), nullptr);
  EXPECT_EQ(*networks.Find("web", "db"), std::vector<uint32_t>{1});
  EXPECT_EQ(networks.Find("web", "nobody"), nullptr);
  EXPECT_EQ(networks.Find("nowhere", "db"), nullptr);
}

TEST(NamedNetworks, NetworksOfOneNameOfTwoTenantsAreTwo) {
  NamedNetworks networks;
  const uint32_t host = networks.Join(NetworkKey("", "n"), "db", 1);
  const uint32_t red = networks.Join(NetworkKey("red", "n"), "db", 2);
  const uint32_t blue = networks.Join(NetworkKey("blue", "n"), "db", 3);
  EXPECT_NE(host, red);
  EXPECT_NE(red, blue);
  EXPECT_NE(host, blue);
  EXPECT_EQ(*networks.Find(NetworkKey("red", "n"), "db"), std::vector<uint32_t>{2});
  EXPECT_EQ(*networks.Find(NetworkKey("", "n"), "db"), std::vector<uint32_t>{1});
  // A client cannot name the network of another, because a label has no slash.
  EXPECT_FALSE(CheckLabel("network", NetworkKey("red", "n")));
}

TEST(NamedNetworks, ANumberDoesNotComeAgain) {
  NamedNetworks networks;
  const uint32_t first = networks.Join("web", "db", 1);
  networks.Join("web", "db", 2);
  networks.Leave("web", "db", 1);
  EXPECT_EQ(*networks.Find("web", "db"), std::vector<uint32_t>{2});
  networks.Leave("web", "db", 2);
  EXPECT_EQ(networks.Find("web", "db"), nullptr);
  networks.Leave("web", "db", 2);
  EXPECT_NE(networks.Join("web", "db", 1), first);
}

TEST(NamedNetworks, Labels) {
  for (const char* good : {"a", "db-1", "0"}) EXPECT_TRUE(CheckLabel("network", good)) << good;
  EXPECT_TRUE(CheckLabel("network", std::string(63, 'a')));
  for (const std::string& bad :
       {std::string(), std::string("-a"), std::string("a-"), std::string("A"), std::string("a.b"),
        std::string("a b"), std::string(64, 'a'), std::string("a\0", 2)}) {
    EXPECT_FALSE(CheckLabel("network", bad)) << bad;
  }
}

}  // namespace
}  // namespace atl::netpolicy
