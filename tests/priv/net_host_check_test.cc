// The report of `doctor`, on hosts made for the tests.
#include <gtest/gtest.h>

#include <algorithm>

#include "netpolicy/host_check.h"
#include "netpolicy/link/netlink.h"
#include "tests/priv/net_lab.h"

namespace atl::testing {
namespace {

using netpolicy::HostFinding;

std::vector<HostFinding> Blocked() {
  std::vector<HostFinding> findings = netpolicy::CheckHost(kLabInstance);
  std::erase_if(findings,
                [](const HostFinding& f) { return f.level != HostFinding::Level::kBlocked; });
  return findings;
}

TEST(NetHostCheck, PlainHostIsFineAndStaysUntouched) {
  RunInOwnNetns([] {
    NetLab lab;
    EXPECT_TRUE(Blocked().empty()) << Blocked()[0].what;
    EXPECT_EQ(Nft("list ruleset"), "") << "the rules were only checked";
    lab.OpenNetwork();
    EXPECT_TRUE(Blocked().empty()) << "our own table is no foreign one";
    Nft("delete table inet atoll7; add table inet atoll7; "
        "add set inet atoll7 connections { type ipv4_addr; }");
    EXPECT_TRUE(Blocked().empty()) << "nor is that of another release";
    EXPECT_NE(Nft("list table inet atoll7"), "") << "it was only checked";
  });
}

TEST(NetHostCheck, FindsForeignDropPolicies) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    Nft("table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; };\n"
        " chain OUTPUT { type filter hook output priority 0; policy drop; }; }\n"
        "table ip6 mine { chain in { type filter hook input priority 0; policy drop; }; }\n"
        "table inet firewalld { chain routed { type filter hook forward priority 10; }; }\n"
        "table inet other { chain routed { type filter hook forward priority 10; policy accept; }; "
        "}");
    const auto findings = Blocked();
    ASSERT_EQ(findings.size(), 3U);
    const auto has = [&](const char* what, const char* fix) {
      return std::any_of(findings.begin(), findings.end(), [&](const HostFinding& f) {
        return f.what.find(what) != std::string::npos && f.fix.find(fix) != std::string::npos;
      });
    };
    EXPECT_TRUE(has("table ip filter, chain FORWARD", "iptables -I FORWARD -i atl7-+ -j ACCEPT"));
    EXPECT_TRUE(has("table ip6 mine, chain in", "accept \"iifname atl7-*\" in chain in"));
    EXPECT_TRUE(has("table inet firewalld, chain routed", "firewall-cmd"));
  });
}

// The advice is right: the foreign policy cuts sandboxes off, and the named rules let them through.
TEST(NetHostCheck, TheNamedFixWorks) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto guest = lab.AddGuest(1);
    UniqueFd listener;
    lab.outside().Run([&] { listener = Listen(SOCK_STREAM, "203.0.113.2", 8000); });
    Reach reach = Reach::kConnected;
    Nft("table ip mine { chain routed { type filter hook forward priority 0; policy drop; }; }");
    guest->ns.Run([&] { reach = TryConnect("203.0.113.2", 8000, kSilenceMs); });
    EXPECT_EQ(reach, Reach::kSilence);
    Nft("add rule ip mine routed iifname \"atl7-*\" accept; add rule ip mine routed oifname "
        "\"atl7-*\" accept");
    guest->ns.Run([&] { reach = TryConnect("203.0.113.2", 8000); });
    EXPECT_EQ(reach, Reach::kConnected);
  });
}

}  // namespace
}  // namespace atl::testing
