#include "netpolicy/policy/guards.h"

#include <gtest/gtest.h>

namespace atl::netpolicy {
namespace {

bool In(const std::vector<IpPrefix>& prefixes, const char* address) {
  const auto parsed = ParseIpAddress(address);
  EXPECT_TRUE(parsed) << address;
  return AnyContains(prefixes, *parsed);
}

TEST(Guards, NeverReachable) {
  for (const char* address :
       {"0.0.0.0", "127.0.0.1", "127.255.255.255", "224.0.0.1", "255.255.255.255", "10.200.0.1",
        "10.207.255.254", "::", "::1", "fe80::1", "ff02::1", "fec0::1", "fd61:746c:6c00::1",
        "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::1"}) {
    EXPECT_TRUE(In(NeverReachable(), address)) << address;
  }
  for (const char* address : {"10.199.255.255", "10.208.0.0", "203.0.113.1", "2001:db8::1",
                              "64:ff9b::cb00:7101", "fd61:746c:6b00::1"}) {
    EXPECT_FALSE(In(NeverReachable(), address)) << address;
  }
  // An IPv4-mapped IPv6 address, as a packet may have it. No text parses to it.
  IpAddress mapped = *ParseIpAddress("::1");
  mapped.bytes[10] = mapped.bytes[11] = 0xff;
  EXPECT_TRUE(AnyContains(NeverReachable(), mapped));
}

TEST(Guards, WhatATranslatorLeadsTo) {
  const auto guarded = WithNat64(DefaultPrivate());
  EXPECT_TRUE(In(guarded, "192.168.1.1"));
  EXPECT_TRUE(In(guarded, "64:ff9b::c0a8:101"));
  EXPECT_TRUE(In(guarded, "64:ff9b::a01:203"));
  EXPECT_TRUE(In(guarded, "fc00::1"));
  EXPECT_FALSE(In(guarded, "64:ff9b::cb00:7101"));
  EXPECT_TRUE(In(WithNat64(MetadataServices()), "64:ff9b::a9fe:a9fe"));
}

TEST(Guards, ParsesListsAndNamesWhatIsNone) {
  EXPECT_EQ(ParsePrefixes({"10.0.0.0/8", "fc00::/7", "192.0.2.1"})->size(), 3U);
  const auto wrong = ParsePrefixes({"10.0.0.0/8", "office"});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("'office'"), std::string::npos);
}

}  // namespace
}  // namespace atl::netpolicy
