// Somebody removes parts of the host's side. Nothing gets through meanwhile, the daemon restores
// everything at once, and it reports the change.
#include <gtest/gtest.h>
#include <linux/if.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <fstream>

#include "netpolicy/link/link.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/policy/policy_json.h"
#include "tests/priv/net_lab.h"
#include "tests/unit/netpolicy/test_loop.h"

namespace atl::testing {
namespace {

using netpolicy::NetlinkBatch;
using netpolicy::SlotRequest;

constexpr uint16_t kPort = 8000;
constexpr const char* kOutside4 = "203.0.113.2";
constexpr const char* kOutside6 = "2001:db8::2";
constexpr const char* kHost4 = "203.0.113.1";
constexpr const char* kTable = "list table inet atoll7";
// If the daemon wrongly saw a change, it would repair in the same turn of the loop that reads the
// event.
constexpr int kSettleMs = 100;

SlotRequest Asks(const std::string& json) {
  SlotRequest request;
  request.sandbox = "box";
  auto policy = netpolicy::ParsePolicy(json);
  EXPECT_TRUE(policy) << policy.error().message();
  request.policy = netpolicy::Share(*std::move(policy));
  return request;
}

struct World {
  TestLoop loop;
  Health health;
  NetLab lab;
  std::unique_ptr<Guest> open, denied;

  World() {
    lab.OpenNetwork();
    EXPECT_TRUE(lab.network().Start(loop, health));
    open = lab.AddGuest(1);
    EXPECT_TRUE(lab.network().ClaimSlot(1, {}));
    denied = lab.AddGuest(2);
    EXPECT_TRUE(lab.network().ClaimSlot(2, Asks("{}")));
  }
  Reach Try(const Guest& guest, const std::string& address = kOutside4) {
    UniqueFd listener;
    const auto listen = [&] { listener = Listen(SOCK_STREAM, address, kPort); };
    address == kHost4 ? listen() : lab.outside().Run(listen);
    Reach reach = Reach::kSilence;
    guest.ns.Run([&] { reach = TryConnect(address, kPort, kSilenceMs); });
    return reach;
  }
  // Runs the loop until the daemon has restored and reported what was removed.
  void ExpectRepair(uint64_t count = 1) {
    EXPECT_TRUE(loop.RunUntil([&] { return lab.network().repairs() >= count; }));
    EXPECT_TRUE(health.troubles().contains("network"));
  }
  void ExpectWorks() {
    for (const char* address : {kOutside4, kOutside6}) {
      EXPECT_EQ(Try(*open, address), Reach::kConnected) << address;
      EXPECT_EQ(Try(*denied, address), Reach::kRefused) << address;
    }
    EXPECT_EQ(Try(*denied, kHost4), Reach::kRefused);
  }
};

struct Witness {
  std::string address;
  UniqueFd socket;
};

// No code of the daemon runs between a flush and ExpectRepair. A packet that arrives in between
// would arrive however quickly the rules came back.
TEST(NetFence, NothingPassesBetweenAFlushAndTheRepair) {
  RunInOwnNetns([] {
    World world;
    std::vector<Witness> witnesses;
    for (const char* address : {kOutside4, kOutside6, kHost4, "2001:db8::1"}) {
      UniqueFd socket;
      const auto listen = [&] { socket = Listen(SOCK_DGRAM, address, kPort); };
      std::string(address) == kHost4 || std::string(address) == "2001:db8::1"
          ? listen()
          : world.lab.outside().Run(listen);
      witnesses.push_back({address, std::move(socket)});
    }
    const char* const kAttacks[] = {
        "flush ruleset", "delete table inet atoll7", "flush table inet atoll7",
        "flush chain inet atoll7 forward; "
        "flush chain inet atoll7 input; flush chain inet atoll7 prerouting",
        "add table inet atoll7 { flags dormant; }"};
    uint64_t rounds = 0;
    for (int i = 0; i < 20; ++i) {
      for (const char* attack : kAttacks) {
        Nft(attack);
        for (const Guest* guest : {world.denied.get(), world.open.get()}) {
          guest->ns.Run([&] {
            for (const Witness& witness : witnesses) {
              (void)SendDatagram("", witness.address, kPort, attack);
            }
          });
        }
        const uint64_t before = rounds++;
        EXPECT_TRUE(world.loop.RunUntil([&] { return world.lab.network().repairs() > before; }))
            << attack;
      }
    }
    for (const Witness& witness : witnesses) {
      EXPECT_EQ(ReceiveFrom(witness.socket.get(), nullptr, 0), "") << witness.address;
    }
    world.ExpectWorks();
  });
}

TEST(NetFence, TheTableIsBackAsItWas) {
  RunInOwnNetns([] {
    World world;
    std::vector<std::unique_ptr<Guest>> guests;
    for (uint32_t slot = 10; slot < 60; ++slot) {
      guests.push_back(world.lab.AddGuest(slot));
      SlotRequest request =
          Asks(R"({"egress":[{"action":"allow","target":"203.0.113.)" + std::to_string(slot) +
               R"("},{"action":"allow","target":"198.51.100.0/24","ports":[)" +
               std::to_string(slot) + R"(]},{"action":"allow","target":"a.example"}]})");
      request.network = slot % 2 == 0 ? "even" : "odd";
      ASSERT_TRUE(world.lab.network().ClaimSlot(slot, request));
    }
    const std::string before = Nft(kTable);
    EXPECT_NE(before.find("203.0.113.59"), std::string::npos);
    Nft("flush ruleset");
    world.ExpectRepair();
    EXPECT_EQ(Nft(kTable), before);
    Nft("flush set inet atoll7 policed; flush set inet atoll7 links4");
    world.ExpectRepair(2);
    EXPECT_EQ(Nft(kTable), before);
    world.ExpectWorks();
  });
}

// The daemon must not take its own changes for somebody else's.
TEST(NetFence, OwnChangesAreNone) {
  RunInOwnNetns([] {
    World world;
    for (uint32_t slot = 10; slot < 20; ++slot) {
      const auto guest = world.lab.AddGuest(slot);
      ASSERT_TRUE(world.lab.network().ClaimSlot(
          slot, Asks(R"({"egress":[{"action":"allow","target":"203.0.113.9"}]})")));
      ASSERT_TRUE(world.lab.network().DetachSlot(slot));
    }
    Nft("add table inet others; add chain inet others c; flush table inet others");
    world.loop.RunUntil([] { return false; }, kSettleMs);
    EXPECT_EQ(world.lab.network().repairs(), 0U);
    EXPECT_TRUE(world.health.troubles().empty());
  });
}

// Somebody lets a sandbox through. Its connection does not outlive the repair.
TEST(NetFence, FlowsThatBeganMeanwhileAreCut) {
  RunInOwnNetns([] {
    World world;
    Nft("insert rule inet atoll7 policed meta mark set meta mark or 0x20000000 accept");
    UniqueFd listener, client, server;
    world.lab.outside().Run([&] { listener = Listen(SOCK_STREAM, kOutside4, kPort); });
    const netpolicy::Endpoint to = *netpolicy::ParseEndpoint(kOutside4, kPort);
    world.denied->ns.Run([&] {
      client.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(::connect(client.get(), to.get(), to.size), 0);
    });
    ASSERT_TRUE(WaitReadable(listener.get(), kPatienceMs));
    server.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_EQ(::send(client.get(), "1", 1, MSG_NOSIGNAL), 1);
    ASSERT_EQ(ReceiveFrom(server.get()), "1");
    world.ExpectRepair();
    world.loop.RunUntil([] { return false; }, kSettleMs);
    (void)::send(client.get(), "2", 1, MSG_NOSIGNAL);
    EXPECT_EQ(ReceiveFrom(server.get(), nullptr, kSilenceMs), "");
    server.reset();
    listener.reset();
    client.reset();
    EXPECT_EQ(world.Try(*world.denied), Reach::kRefused);
  });
}

void Rtnetlink(uint16_t type, const std::function<void(NetlinkBatch&)>& fill) {
  NetlinkBatch batch;
  batch.Begin(type, 0, "test");
  fill(batch);
  auto socket = netpolicy::OpenNetlink(NETLINK_ROUTE);
  ASSERT_TRUE(socket);
  const Status done = netpolicy::Exchange(socket->get(), batch);
  ASSERT_TRUE(done) << done.error().message();
}

void SetDown(int index) {
  Rtnetlink(RTM_NEWLINK, [&](NetlinkBatch& batch) {
    ifinfomsg header{};
    header.ifi_index = index;
    header.ifi_change = IFF_UP;
    batch.Header(header);
  });
}

void DeleteRoute(std::span<const uint8_t> address) {
  Rtnetlink(RTM_DELROUTE, [&](NetlinkBatch& batch) {
    rtmsg header{};
    header.rtm_family = address.size() == 4 ? AF_INET : AF_INET6;
    header.rtm_dst_len = static_cast<unsigned char>(address.size() * 8);
    header.rtm_table = RT_TABLE_MAIN;
    header.rtm_scope = RT_SCOPE_NOWHERE;
    batch.Header(header);
    batch.Put(RTA_DST, address);
  });
}

void DeleteNeighbour(int index, std::span<const uint8_t> address) {
  Rtnetlink(RTM_DELNEIGH, [&](NetlinkBatch& batch) {
    ndmsg header{};
    header.ndm_family = address.size() == 4 ? AF_INET : AF_INET6;
    header.ndm_ifindex = index;
    batch.Header(header);
    batch.Put(NDA_DST, address);
  });
}

void DeleteGateway(std::span<const uint8_t> address) {
  Rtnetlink(RTM_DELADDR, [&](NetlinkBatch& batch) {
    ifaddrmsg header{};
    header.ifa_family = address.size() == 4 ? AF_INET : AF_INET6;
    header.ifa_prefixlen = static_cast<uint8_t>(address.size() * 8);
    header.ifa_index = 1;
    batch.Header(header);
    batch.Put(IFA_LOCAL, address);
  });
}

void WriteSysctl(const std::string& path, const std::string& value) {
  std::ofstream("/proc/sys/net/" + path) << value;
}

// Events about a removed link must not be taken for the slot's next link. They may arrive late. If
// there are more than the socket can hold, some of them are lost.
TEST(NetFence, ASlotsNextLinkIsAnother) {
  for (const int lives : {1, 200}) {
    RunInOwnNetns([&] {
      World world;
      for (int i = 0; i < lives; ++i) {
        const auto guest = world.lab.AddGuest(10);
        ASSERT_TRUE(world.lab.network().ClaimSlot(10, {}));
        ASSERT_TRUE(world.lab.network().DetachSlot(10));
      }
      const auto next = world.lab.AddGuest(10);
      world.loop.RunUntil([] { return false; }, kSettleMs);
      EXPECT_EQ(world.lab.network().repairs(), 0U) << lives;
      EXPECT_TRUE(world.health.troubles().empty()) << lives;
      SetDown(netpolicy::HostIfindex(kLabInstance, 10));
      world.ExpectRepair();
    });
  }
}

// A sandbox fills the neighbour table, which all namespaces share, and the kernel evicts entries.
TEST(NetFence, AFullNeighbourTableIsNoChange) {
  RunInOwnNetns([] {
    World world;
    world.open->ns.Run([] {
      const UniqueFd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const int interface = netpolicy::kInsideIfindex;
      ASSERT_EQ(
          ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF, &interface, sizeof interface),
          0);
      for (int i = 0; i < 6000; ++i) {
        sockaddr_in6 group{};
        group.sin6_family = AF_INET6;
        group.sin6_port = htons(kPort);
        group.sin6_addr = {{{0xff, 2}}};
        group.sin6_addr.s6_addr[14] = static_cast<uint8_t>(i >> 8);
        group.sin6_addr.s6_addr[15] = static_cast<uint8_t>(i);
        (void)::sendto(socket.get(), "x", 1, 0, reinterpret_cast<sockaddr*>(&group), sizeof group);
      }
    });
    world.loop.RunUntil([] { return false; }, kSettleMs);
    EXPECT_EQ(world.lab.network().repairs(), 0U);
    EXPECT_TRUE(world.health.troubles().empty());
  });
}

TEST(NetFence, WhatIsTakenFromALinkIsPutBack) {
  RunInOwnNetns([] {
    World world;
    const int index = netpolicy::HostIfindex(kLabInstance, 1);
    const auto ipv4 = netpolicy::SlotIpv4(kLabInstance, 1);
    const auto ipv6 = netpolicy::SlotIpv6(kLabInstance, 1);
    const std::vector<std::function<void()>> attacks{
        [&] { SetDown(index); },
        [&] { DeleteRoute(ipv4); },
        [&] { DeleteRoute(ipv6); },
        [&] { DeleteNeighbour(index, ipv4); },
        [&] { DeleteNeighbour(index, ipv6); },
        [&] { DeleteGateway(netpolicy::GatewayIpv4(kLabInstance)); },
        [&] { DeleteGateway(netpolicy::GatewayIpv6(kLabInstance)); },
        [&] { WriteSysctl("ipv4/ip_forward", "0"); },
        [&] { WriteSysctl("ipv6/conf/all/forwarding", "0"); },
    };
    world.ExpectWorks();
    for (size_t i = 0; i < attacks.size(); ++i) {
      SCOPED_TRACE(i);
      attacks[i]();
      world.ExpectRepair(i + 1);
      // The inner end learns from a kernel work queue that the other end is up again.
      const Status able = netpolicy::AwaitCarrier(
          world.open->rtnetlink.get(), netpolicy::kInsideIfindex, "eth0", kCarrierMicros);
      EXPECT_TRUE(able);
      world.ExpectWorks();
    }
  });
}

std::string RateOf(int index) {
  NetlinkBatch batch;
  batch.Begin(RTM_GETQDISC, NLM_F_DUMP | NetlinkBatch::kNoAck, "qdiscs");
  batch.Header(tcmsg{});
  auto socket = netpolicy::OpenNetlink(NETLINK_ROUTE);
  std::string kind;
  EXPECT_TRUE(netpolicy::Dump(socket->get(), batch, [&](const nlmsghdr* m) {
    tcmsg header;
    std::memcpy(&header, NLMSG_DATA(m), sizeof header);
    if (header.tcm_ifindex != index) return;
    for (const auto& attribute : netpolicy::Attributes(m, sizeof header)) {
      if (attribute.type == TCA_KIND) kind = attribute.Text();
    }
  }));
  return kind;
}

TEST(NetFence, ARateIsPutBack) {
  RunInOwnNetns([] {
    World world;
    const auto guest = world.lab.AddGuest(3);
    SlotRequest request;
    request.bytes_per_second = 1 << 20;
    ASSERT_TRUE(world.lab.network().ClaimSlot(3, request));
    const int index = netpolicy::HostIfindex(kLabInstance, 3);
    ASSERT_EQ(RateOf(index), "tbf");
    Rtnetlink(RTM_DELQDISC, [&](NetlinkBatch& batch) {
      tcmsg header{};
      header.tcm_ifindex = index;
      header.tcm_parent = TC_H_ROOT;
      batch.Header(header);
    });
    ASSERT_NE(RateOf(index), "tbf");
    world.ExpectRepair();
    EXPECT_EQ(RateOf(index), "tbf");
  });
}

TEST(NetFence, ALinkThatIsDeletedIsTold) {
  RunInOwnNetns([] {
    World world;
    Rtnetlink(RTM_DELLINK, [](NetlinkBatch& batch) {
      ifinfomsg header{};
      header.ifi_index = netpolicy::HostIfindex(kLabInstance, 1);
      batch.Header(header);
    });
    EXPECT_TRUE(world.loop.RunUntil([&] { return world.health.troubles().contains("network"); }));
    ASSERT_TRUE(world.lab.network().DetachSlot(1));
    EXPECT_TRUE(world.health.troubles().empty());
  });
}

// The end of a sandbox looks the same to the kernel.
TEST(NetFence, ALinkThatGoesWithItsSandboxIsNot) {
  RunInOwnNetns([] {
    World world;
    world.open->rtnetlink.reset();
    world.open->ns.Close();
    EXPECT_TRUE(world.loop.RunUntil([] {
      auto socket = netpolicy::OpenNetlink(NETLINK_ROUTE);
      return netpolicy::ListSlotLinks(socket->get(), kLabInstance)->size() == 1;
    }));
    ASSERT_TRUE(world.lab.network().DetachSlot(1));
    world.loop.RunUntil([] { return false; }, 3500);
    EXPECT_TRUE(world.health.troubles().empty());
    EXPECT_EQ(world.lab.network().repairs(), 0U);
  });
}

// A spawner's stock ends with the spawner. A restart may take longer than the time for which a link
// may be missing. The slot numbers are used again.
TEST(NetFence, LinksThatWentWithTheirSpawnerAreNotLost) {
  RunInOwnNetns([] {
    World world;
    const auto stock = world.lab.AddGuest(10);
    Rtnetlink(RTM_DELLINK, [](NetlinkBatch& batch) {
      ifinfomsg header{};
      header.ifi_index = netpolicy::HostIfindex(kLabInstance, 10);
      batch.Header(header);
    });
    EXPECT_TRUE(world.loop.RunUntil([&] { return world.health.troubles().contains("network"); }));
    ASSERT_TRUE(world.lab.network().Recover({{.slot = 1, .request = {}}}));
    EXPECT_TRUE(world.health.troubles().empty());
    const auto next = world.lab.AddGuest(10);
    EXPECT_TRUE(world.lab.network().ClaimSlot(10, {}));
    // The daemon still watches the live link.
    SetDown(netpolicy::HostIfindex(kLabInstance, 1));
    world.ExpectRepair();
  });
}

}  // namespace
}  // namespace atl::testing
