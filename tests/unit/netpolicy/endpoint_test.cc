#include "netpolicy/address/endpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "netpolicy/dns/dns_upstreams.h"

namespace atl::netpolicy {
namespace {

TEST(Endpoint, TakesAddressesWithAndWithoutPort) {
  EXPECT_EQ(ParseEndpoint("192.0.2.1", 53)->ToString(), "192.0.2.1:53");
  EXPECT_EQ(ParseEndpoint("192.0.2.1:5353", 53)->ToString(), "192.0.2.1:5353");
  EXPECT_EQ(ParseEndpoint("2001:db8::1", 53)->ToString(), "[2001:db8::1]:53");
  EXPECT_EQ(ParseEndpoint("[2001:db8::1]", 53)->ToString(), "[2001:db8::1]:53");
  EXPECT_EQ(ParseEndpoint("[2001:db8::1]:5353", 53)->ToString(), "[2001:db8::1]:5353");
  EXPECT_EQ(ParseEndpoint("fe80::1%lo", 53)->ToString(), "[fe80::1]:53");
}

TEST(Endpoint, RefusesEverythingElse) {
  for (const char* text : {"", "dns.example", "192.0.2.1:", "192.0.2.1:0", "192.0.2.1:65536",
                           "192.0.2.1:5x", "192.0.2.256", "[2001:db8::1", "[2001:db8::1]5",
                           "2001:db8::1]:5", "fe80::1%no-such-link", ":53"}) {
    EXPECT_FALSE(ParseEndpoint(text, 53).has_value()) << text;
  }
}

TEST(ResolvConf, KeepsNameserverLinesOnly) {
  const auto servers = ParseResolvConf(
      "# nameserver 192.0.2.9\n"
      "search example.com\n"
      "nameserver 127.0.0.53\n"
      "nameserver\t2001:db8::1   # second\n"
      "nameservers 192.0.2.8\n"
      "nameserver dns.example\n"
      "nameserver 192.0.2.2");
  ASSERT_EQ(servers.size(), 3U);
  EXPECT_EQ(servers[0].ToString(), "127.0.0.53:53");
  EXPECT_EQ(servers[1].ToString(), "[2001:db8::1]:53");
  EXPECT_EQ(servers[2].ToString(), "192.0.2.2:53");
}

TEST(DnsUpstreams, ReadsAChangedResolvConfAndSkipsItself) {
  const std::string path = ::testing::TempDir() + "resolv." + std::to_string(::getpid());
  const auto own = ParseEndpoint("10.200.255.254", 53);
  auto upstreams = DnsUpstreams::Make({}, path, {*own});
  ASSERT_TRUE(upstreams.has_value());
  EXPECT_TRUE(upstreams->Current().empty()) << "no file: nobody to ask";
  std::ofstream(path) << "nameserver 192.0.2.1\nnameserver 10.200.255.254\n";
  ASSERT_EQ(upstreams->Current().size(), 1U);
  EXPECT_EQ(upstreams->Current()[0].ToString(), "192.0.2.1:53");
  std::ofstream(path) << "nameserver 192.0.2.22\n";
  EXPECT_EQ(upstreams->Current()[0].ToString(), "192.0.2.22:53");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_TRUE(upstreams->Current().empty());
}

TEST(DnsUpstreams, AsksAFailedOneLast) {
  auto upstreams = DnsUpstreams::Make({"192.0.2.1", "192.0.2.2"}, "", {});
  ASSERT_TRUE(upstreams.has_value());
  const Endpoint first = upstreams->Current()[0];
  upstreams->Demote(first);
  EXPECT_EQ(upstreams->Current()[0].ToString(), "192.0.2.2:53");
  upstreams->Demote(first);
  EXPECT_EQ(upstreams->Current()[0].ToString(), "192.0.2.2:53") << "it is not first any more";
}

TEST(DnsUpstreams, RefusesAConfigurationWithoutSense) {
  EXPECT_FALSE(DnsUpstreams::Make({"dns.example"}, "", {}).has_value());
}

}  // namespace
}  // namespace atl::netpolicy
