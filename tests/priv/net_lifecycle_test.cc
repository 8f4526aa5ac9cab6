// The life of slots: attach, detach, crash, recovery, removal; and what remains afterwards.
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

#include "netpolicy/link/link.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/rules/conntrack.h"
#include "netpolicy/rules/nft.h"
#include "netpolicy/rules/ruleset.h"
#include "tests/priv/net_lab.h"
#include "tests/unit/netpolicy/test_loop.h"

namespace atl::testing {
namespace {

using netpolicy::Endpoint;
using netpolicy::NetlinkBatch;

constexpr uint16_t kPort = 8000;

std::set<std::string> Addresses(const std::string& link) {
  std::set<std::string> found;
  ifaddrs* list = nullptr;
  EXPECT_EQ(::getifaddrs(&list), 0);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (entry->ifa_name != link || !entry->ifa_addr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Endpoint endpoint;
    std::memcpy(&endpoint.address, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.insert(endpoint.ToString());
  }
  ::freeifaddrs(list);
  return found;
}

bool ReachesOutside(const NetLab& lab, const Guest& guest, int limit_ms = kPatienceMs) {
  UniqueFd listener;
  lab.outside().Run([&] { listener = Listen(SOCK_STREAM, "203.0.113.2", kPort); });
  Reach reach = Reach::kSilence;
  guest.ns.Run([&] { reach = TryConnect("203.0.113.2", kPort, limit_ms); });
  return reach == Reach::kConnected;
}

std::vector<uint32_t> SlotLinks() {
  auto socket = netpolicy::OpenNetlink(NETLINK_ROUTE);
  EXPECT_TRUE(socket.has_value());
  auto slots = netpolicy::ListSlotLinks(socket->get(), kLabInstance);
  EXPECT_TRUE(slots.has_value());
  std::sort(slots->begin(), slots->end());
  return *slots;
}

TEST(NetLifecycle, BothEndsHaveTheirAddressesAndNoOther) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto guest = lab.AddGuest(4095);
    guest->ns.Run([] {
      EXPECT_EQ(Addresses("eth0"),
                (std::set<std::string>{"10.207.15.255:0", "[fd61:746c:6c07::fff]:0"}));
      EXPECT_EQ(Addresses("lo"), (std::set<std::string>{"127.0.0.1:0", "[::1]:0"}));
    });
    EXPECT_EQ(Addresses("atl7-4095"), std::set<std::string>{});
    EXPECT_TRUE(ReachesOutside(lab, *guest));
  });
}

// The address must work before the kernel's work queue runs: see AddLocalRoute in
// netpolicy/link/link.cc.
TEST(NetLifecycle, Ipv6AddressReceivesAtOnce) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto guest = lab.AddGuest(7);
    NetlinkBatch batch;
    batch.Begin(RTM_GETROUTE, NLM_F_DUMP | NetlinkBatch::kNoAck, "routes");
    rtmsg request{};
    request.rtm_family = AF_INET6;
    batch.Header(request);
    bool found = false;
    const auto address = netpolicy::SlotIpv6(kLabInstance, 7);
    const Status dumped = netpolicy::Dump(guest->rtnetlink.get(), batch, [&](const nlmsghdr* m) {
      rtmsg route;
      std::memcpy(&route, NLMSG_DATA(m), sizeof route);
      if (route.rtm_type != RTN_LOCAL || route.rtm_protocol != RTPROT_STATIC) return;
      for (const auto& attribute : netpolicy::Attributes(m, sizeof route)) {
        if (attribute.type != RTA_DST) continue;
        found |= std::equal(attribute.bytes.begin(), attribute.bytes.end(), address.begin(),
                            address.end());
      }
    });
    EXPECT_TRUE(dumped.has_value());
    EXPECT_TRUE(found);
  });
}

// Reads the state in a dump, which does not change it. See AwaitCarrier.
int OperationalState(int socket, uint32_t index) {
  NetlinkBatch batch;
  batch.Begin(RTM_GETLINK, NLM_F_DUMP | NetlinkBatch::kNoAck, "links");
  batch.Header(ifinfomsg{});
  int state = -1;
  const Status dumped = netpolicy::Dump(socket, batch, [&](const nlmsghdr* m) {
    ifinfomsg link;
    std::memcpy(&link, NLMSG_DATA(m), sizeof link);
    if (static_cast<uint32_t>(link.ifi_index) != index) return;
    for (const auto& attribute : netpolicy::Attributes(m, sizeof link)) {
      if (attribute.type == IFLA_OPERSTATE) state = attribute.bytes[0];
    }
  });
  EXPECT_TRUE(dumped.has_value());
  return state;
}

TEST(NetLifecycle, FirstPacketIsNotLost) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    for (uint32_t slot = 1; slot <= 8; ++slot) {
      const auto guest = lab.AddGuest(slot);
      EXPECT_EQ(OperationalState(guest->rtnetlink.get(), netpolicy::kInsideIfindex), IF_OPER_UP);
    }
  });
}

TEST(NetLifecycle, LinkWithoutCarrierIsAnError) {
  RunInOwnNetns([] {
    // The other end of this link never comes up.
    const NetNs other;
    NetlinkBatch batch;
    netpolicy::AddInsideMessages(batch, {kLabInstance, 1, 1500, false}, other.fd());
    const auto socket = netpolicy::OpenNetlink(NETLINK_ROUTE);
    ASSERT_TRUE(netpolicy::Exchange(socket->get(), batch).has_value());
    const Status carrier =
        netpolicy::AwaitCarrier(socket->get(), netpolicy::kInsideIfindex, "eth0", 1'000'000);
    ASSERT_FALSE(carrier.has_value());
    EXPECT_EQ(carrier.error().code(), Code::kUnavailable) << carrier.error().message();
  });
}

TEST(NetLifecycle, OtherSlotsAreRefused) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    for (const uint32_t slot : {0U, netpolicy::kMaxSlot + 1}) {
      const Status attached = lab.network().AttachSlot(slot, -1);
      ASSERT_FALSE(attached.has_value());
      EXPECT_EQ(attached.error().code(), Code::kInvalidArgument);
    }
  });
}

TEST(NetLifecycle, ErrorsNameTheRequest) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto guest = lab.AddGuest(1);
    // The namespace has an eth0 already.
    const Status again = lab.network().AttachSlot(2, guest->rtnetlink.get());
    ASSERT_FALSE(again.has_value());
    EXPECT_NE(again.error().message().find("RTM_NEWLINK eth0, veth with peer atl7-2"),
              std::string::npos)
        << again.error().message();
    EXPECT_EQ(again.error().code(), Code::kAlreadyExists);
  });
}

TEST(NetLifecycle, StaleLinkOfACrashIsReplaced) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto left_behind = lab.AddGuest(3);
    const auto guest = lab.AddGuest(3);
    EXPECT_TRUE(ReachesOutside(lab, *guest));
  });
}

TEST(NetLifecycle, DetachedSlotIsSilent) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto guest = lab.AddGuest(1);
    const auto other = lab.AddGuest(2);
    EXPECT_TRUE(ReachesOutside(lab, *guest));
    ASSERT_TRUE(lab.network().DetachSlot(1).has_value());
    EXPECT_FALSE(ReachesOutside(lab, *guest, kSilenceMs));
    EXPECT_TRUE(ReachesOutside(lab, *other));
    EXPECT_TRUE(lab.network().DetachSlot(1).has_value()) << "a second time is no error";
  });
}

// Returns true if the far end of a flow can still reach the slot after its elements have been
// restored.
bool OldFlowAnswers(const std::string& address, int limit_ms,
                    const std::function<void(NetLab&)>& change) {
  NetLab lab;
  lab.OpenNetwork();
  const auto guest = lab.AddGuest(1);
  UniqueFd server, client;
  const Endpoint target = *netpolicy::ParseEndpoint(address, kPort);
  lab.outside().Run([&] { server = Listen(SOCK_DGRAM, address, kPort); });
  guest->ns.Run([&] {
    client.reset(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), target.get(), target.size), 0);
  });
  EXPECT_EQ(::send(client.get(), "hello", 5, 0), 5);
  Endpoint from;
  EXPECT_EQ(ReceiveFrom(server.get(), &from), "hello");
  change(lab);
  EXPECT_TRUE(lab.network().Recover({{.slot = 1, .request = {}}}).has_value());
  EXPECT_EQ(::sendto(server.get(), "late", 4, 0, from.get(), from.size), 4);
  return ReceiveFrom(client.get(), nullptr, limit_ms) == "late";
}

TEST(NetLifecycle, DetachCutsFlows) {
  for (const char* address : {"203.0.113.2", "2001:db8::2"}) {
    RunInOwnNetns([&] {
      EXPECT_FALSE(OldFlowAnswers(address, kSilenceMs, [](NetLab& lab) {
        EXPECT_TRUE(lab.network().DetachSlot(1).has_value());
      }));
    });
    RunInOwnNetns([&] {
      EXPECT_TRUE(OldFlowAnswers(address, kPatienceMs, [](NetLab&) {}))
          << "the flow is dead anyway";
    });
  }
}

// The pool cuts flows off the loop, as in a daemon. The address is free only when that is done.
TEST(NetLifecycle, FlowsAreCutBeforeTheSlotIsFree) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    TestLoop loop;
    Health health;
    ASSERT_TRUE(lab.network().Start(loop, health).has_value());
    EXPECT_TRUE(lab.network().SlotLinkGone(1));
    auto guest = lab.AddGuest(1);
    guest->ns.Run([] { EXPECT_TRUE(SendDatagram("", "203.0.113.2", kPort, "hello")); });
    ASSERT_TRUE(lab.network().DetachSlot(1).has_value());
    guest.reset();
    ASSERT_TRUE(loop.RunUntil([&] { return lab.network().SlotLinkGone(1); }));
    const auto socket = netpolicy::OpenNetlink(NETLINK_NETFILTER);
    const auto left = netpolicy::CutFlows(
        socket->get(), kLabInstance, [](const netpolicy::Flow& flow) { return flow.slot == 1; });
    ASSERT_TRUE(left.has_value());
    EXPECT_EQ(*left, 0U);
    lab.CloseNetwork();
  });
}

TEST(NetLifecycle, LinkDiesWithItsNamespace) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const UniqueFd events(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    sockaddr_nl group{};
    group.nl_family = AF_NETLINK;
    group.nl_groups = RTMGRP_LINK;
    ASSERT_EQ(::bind(events.get(), reinterpret_cast<sockaddr*>(&group), sizeof group), 0);
    EXPECT_TRUE(lab.network().SlotLinkGone(1));
    auto guest = lab.AddGuest(1);
    EXPECT_FALSE(lab.network().SlotLinkGone(1));
    ASSERT_TRUE(lab.network().DetachSlot(1).has_value());
    EXPECT_FALSE(lab.network().SlotLinkGone(1));
    guest.reset();
    while (!lab.network().SlotLinkGone(1)) {
      ASSERT_TRUE(WaitReadable(events.get(), 10000)) << "no link event";
      char buffer[8192];
      ASSERT_GT(::recv(events.get(), buffer, sizeof buffer, 0), 0);
    }
  });
}

TEST(NetLifecycle, OpenAgainKeepsLiveSandboxes) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto guest = lab.AddGuest(1);
    const std::string before = Nft("list table inet atoll7");
    lab.OpenNetwork();
    EXPECT_EQ(Nft("list table inet atoll7"), before);
    EXPECT_TRUE(ReachesOutside(lab, *guest));
  });
}

TEST(NetLifecycle, RecoverKeepsTheLiveAndRemovesTheRest) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto one = lab.AddGuest(1);
    const auto two = lab.AddGuest(2);
    const auto three = lab.AddGuest(3);
    lab.OpenNetwork();
    ASSERT_TRUE(lab.network().Recover({{.slot = 2, .request = {}}}).has_value());
    EXPECT_EQ(SlotLinks(), std::vector<uint32_t>{2});
    EXPECT_TRUE(ReachesOutside(lab, *two));
    const std::string rules = Nft("list set inet atoll7 links4");
    EXPECT_NE(rules.find("10.207.0.2"), std::string::npos) << rules;
    EXPECT_EQ(rules.find("10.207.0.1 "), std::string::npos) << rules;
    EXPECT_EQ(rules.find("10.207.0.3"), std::string::npos) << rules;
  });
}

TEST(NetLifecycle, RemoveAllLeavesNothing) {
  RunInOwnNetns([] {
    NetLab lab;
    const std::set<std::string> before = Addresses("lo");
    lab.OpenNetwork();
    const auto one = lab.AddGuest(1);
    const auto two = lab.AddGuest(2);
    EXPECT_NE(Addresses("lo"), before);
    ASSERT_TRUE(lab.network().RemoveAll().has_value());
    EXPECT_EQ(Nft("list ruleset"), "");
    EXPECT_EQ(SlotLinks(), std::vector<uint32_t>{});
    EXPECT_EQ(Addresses("lo"), before);
    EXPECT_TRUE(lab.network().RemoveAll().has_value()) << "a second time is no error";
  });
}

void KeepOnlyNetAdmin() {
  ASSERT_EQ(::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::setresgid(65534, 65534, 65534), 0);
  ASSERT_EQ(::setresuid(65534, 65534, 65534), 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  data[0].effective = data[0].permitted = 1U << CAP_NET_ADMIN;
  ASSERT_EQ(::syscall(SYS_capset, &header, data), 0);
}

TEST(NetLifecycle, WorksAfterPrivilegesAreDropped) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    // Plays the spawner: the namespace and the socket in it come from root.
    Guest guest;
    guest.ns.Run([&] { guest.rtnetlink = *netpolicy::OpenNetlink(NETLINK_ROUTE); });
    UniqueFd listener, client;
    lab.outside().Run([&] { listener = Listen(SOCK_STREAM, "203.0.113.2", kPort); });
    guest.ns.Run([&] { client.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); });

    KeepOnlyNetAdmin();
    const Status attached = lab.network().AttachSlot(9, guest.rtnetlink.get());
    ASSERT_TRUE(attached.has_value()) << attached.error().message();
    const Endpoint target = *netpolicy::ParseEndpoint("203.0.113.2", kPort);
    EXPECT_EQ(::connect(client.get(), target.get(), target.size), 0);
    const Status detached = lab.network().DetachSlot(9);
    EXPECT_TRUE(detached.has_value()) << detached.error().message();
    EXPECT_FALSE(lab.network().SlotLinkGone(9));
    const Status recovered = lab.network().Recover({});
    EXPECT_TRUE(recovered.has_value()) << recovered.error().message();
    EXPECT_TRUE(lab.network().SlotLinkGone(9));
    const Status removed = lab.network().RemoveAll();
    EXPECT_TRUE(removed.has_value()) << removed.error().message();
  });
}

TEST(NetLifecycle, ForwardingIsOnAndRouterAdvertisementsStillCount) {
  RunInOwnNetns([] {
    NetLab lab;
    lab.OpenNetwork();
    const auto value = [](const char* path) {
      std::FILE* file = std::fopen(path, "re");
      const int c = file ? std::fgetc(file) : -1;
      if (file) std::fclose(file);
      return c;
    };
    EXPECT_EQ(value("/proc/sys/net/ipv4/ip_forward"), '1');
    EXPECT_EQ(value("/proc/sys/net/ipv6/conf/all/forwarding"), '1');
    EXPECT_EQ(value("/proc/sys/net/ipv6/conf/up0/accept_ra"), '2');
  });
}

}  // namespace
}  // namespace atl::testing
