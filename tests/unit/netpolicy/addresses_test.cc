#include "netpolicy/address/addresses.h"

#include <gtest/gtest.h>

#include <set>

#include "netpolicy/network.h"

namespace atl::netpolicy {
namespace {

TEST(Addresses, FollowFromInstanceAndSlot) {
  const SlotAddresses first = AddressesOf(0, 7);
  EXPECT_EQ(first.ipv4, "10.200.0.7");
  EXPECT_EQ(first.ipv6, "fd61:746c:6c00::7");
  EXPECT_EQ(first.gateway_ipv4, "10.200.255.254");
  EXPECT_EQ(first.gateway_ipv6, "fd61:746c:6c00::ffff");
  const SlotAddresses last = AddressesOf(7, 4095);
  EXPECT_EQ(last.ipv4, "10.207.15.255");
  EXPECT_EQ(last.ipv6, "fd61:746c:6c07::fff");
}

TEST(Addresses, NoTwoSlotsShareAnything) {
  std::set<std::string> addresses;
  std::set<MacBytes> macs;
  std::set<int> indices;
  for (uint32_t instance = 0; instance <= kMaxInstance; ++instance) {
    addresses.insert(ToString(GatewayIpv4(instance)));
    addresses.insert(ToString(GatewayIpv6(instance)));
    for (uint32_t slot = 1; slot <= kMaxSlot; ++slot) {
      addresses.insert(ToString(SlotIpv4(instance, slot)));
      addresses.insert(ToString(SlotIpv6(instance, slot)));
      macs.insert(HostMac(instance, slot));
      macs.insert(InsideMac(instance, slot));
      indices.insert(HostIfindex(instance, slot));
    }
  }
  const size_t slots = size_t{kMaxInstance + 1} * kMaxSlot;
  EXPECT_EQ(addresses.size(), 2 * slots + 2 * (kMaxInstance + 1));
  EXPECT_EQ(macs.size(), 2 * slots);
  EXPECT_EQ(indices.size(), slots);
  EXPECT_GT(*indices.begin(), 1'000'000) << "the kernel's own indices count up from 1";
}

TEST(Addresses, MacsAreLocalUnicast) {
  for (const MacBytes& mac : {HostMac(3, 258), InsideMac(3, 258)}) {
    EXPECT_EQ(mac[0] & 0x03, 0x02);
    EXPECT_EQ(mac[3], 3);
    EXPECT_EQ(mac[4], 1);
    EXPECT_EQ(mac[5], 2);
  }
}

TEST(Addresses, LinkNamesGoBothWays) {
  EXPECT_EQ(LinkName(7, 4095), "atl7-4095");
  EXPECT_LT(LinkName(7, 4095).size(), 16U) << "IFNAMSIZ";
  EXPECT_EQ(SlotOfLink(7, "atl7-4095"), 4095U);
  for (const char* other : {"atl6-1", "atl7-", "atl7-0", "atl7-4096", "atl7-01", "atl7-1x", "atl7",
                            "eth0", "", "atl7-99999999999", "atl7--1"}) {
    EXPECT_EQ(SlotOfLink(7, other), std::nullopt) << other;
  }
}

TEST(SourceOf, IsTheSlotWhicheverAddressSpeaks) {
  EXPECT_EQ(SourceOf(1, SlotIpv6(1, 300)), SourceOf(1, SlotIpv4(1, 300)));
  EXPECT_NE(SourceOf(1, SlotIpv4(1, 301)), SourceOf(1, SlotIpv4(1, 300)));
  const Ipv6Bytes other = SlotIpv6(2, 300);
  EXPECT_EQ(SourceOf(1, other), std::string(other.begin(), other.end())) << "another instance's";
}

}  // namespace
}  // namespace atl::netpolicy
