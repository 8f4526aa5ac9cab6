// Policies in the kernel, tried with real sockets from inside a sandbox: the effect of rules for
// addresses, ports and defaults, atomic changes that reach existing flows, named networks, limits.
// Other tests cover names, the name server and the proxy.
#include <gtest/gtest.h>
#include <linux/netlink.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>

#include "netpolicy/link/netlink.h"
#include "netpolicy/policy/policy_json.h"
#include "netpolicy/rules/nft.h"
#include "netpolicy/rules/policy_sets.h"
#include "tests/priv/net_lab.h"

namespace atl::testing {
namespace {

using netpolicy::Endpoint;
using netpolicy::SlotRequest;

constexpr uint16_t kPort = 8000;
constexpr const char* kOutside4 = "203.0.113.2";
constexpr const char* kOutside6 = "2001:db8::2";

netpolicy::SharedPolicy PolicyOf(const std::string& json) {
  auto policy = netpolicy::ParsePolicy(json);
  EXPECT_TRUE(policy) << policy.error().message();
  return netpolicy::Share(*std::move(policy));
}

Status SetPolicy(netpolicy::Network& network, uint32_t slot, netpolicy::SharedPolicy policy) {
  auto egress = network.MakeReady(std::move(policy), "");
  return egress ? network.SetPolicy(slot, *egress) : Status(Fail(egress.error()));
}

SlotRequest Asks(const std::string& json) {
  SlotRequest request;
  request.sandbox = "box";
  request.policy = PolicyOf(json);
  return request;
}

struct World {
  NetLab lab;
  std::unique_ptr<Guest> guest;

  explicit World(const SlotRequest& request) {
    lab.OpenNetwork();
    guest = lab.AddGuest(1);
    const Status claimed = lab.network().ClaimSlot(1, request);
    EXPECT_TRUE(claimed) << claimed.error().message();
  }
  Reach Try(const std::string& address, uint16_t port = kPort, const Guest* from = nullptr) {
    UniqueFd listener;
    lab.outside().Run([&] { listener = Listen(SOCK_STREAM, address, port); });
    Reach reach = Reach::kSilence;
    (from ? *from : *guest).ns.Run([&] { reach = TryConnect(address, port); });
    return reach;
  }
  void Set(const std::string& json) {
    const Status set = SetPolicy(lab.network(), 1, PolicyOf(json));
    EXPECT_TRUE(set) << set.error().message();
  }
};

void ForBoth(const std::function<void(const std::string&)>& body) {
  for (const char* address : {kOutside4, kOutside6}) {
    RunInOwnNetns([&] { body(address); });
  }
}

TEST(NetPolicy, NothingButWhatIsNamedIsReached) {
  ForBoth([](const std::string& address) {
    World world(Asks("{}"));
    EXPECT_EQ(world.Try(address), Reach::kRefused);
    world.Set(R"({"egress":[{"action":"allow","target":")" + address + R"("}]})");
    EXPECT_EQ(world.Try(address), Reach::kConnected);
    world.Set("{}");
    EXPECT_EQ(world.Try(address), Reach::kRefused);
    world.Set(R"({"defaultAction":"allow"})");
    EXPECT_EQ(world.Try(address), Reach::kConnected);
    world.Set(R"({"defaultAction":"allow","egress":[{"target":")" + address + R"("}]})");
    EXPECT_EQ(world.Try(address), Reach::kRefused);
  });
}

TEST(NetPolicy, TheNarrowestPlaceHoldsTheWholeOrder) {
  ForBoth([](const std::string& address) {
    World world(Asks(R"({"egress":[{"action":"deny","target":")" + address +
                     R"(","ports":[8001],"protocol":"tcp"},{"action":"allow","target":")" +
                     address + R"(","ports":[8001,8002]},{"action":"allow","target":")" + address +
                     R"(","protocol":"udp"}]})"));
    EXPECT_EQ(world.Try(address, 8000), Reach::kRefused);
    EXPECT_EQ(world.Try(address, 8001), Reach::kRefused);
    EXPECT_EQ(world.Try(address, 8002), Reach::kConnected);
    UniqueFd server;
    world.lab.outside().Run([&] { server = Listen(SOCK_DGRAM, address, 8000); });
    world.guest->ns.Run([&] { EXPECT_TRUE(SendDatagram("", address, 8000, "hello")); });
    EXPECT_TRUE(WaitReadable(server.get(), kPatienceMs));
    world.Set(R"({"egress":[{"action":"allow","target":")" + address +
              R"(","ports":[8001]},{"action":"deny","target":")" + address + R"("}]})");
    EXPECT_EQ(world.Try(address, 8001), Reach::kConnected);
    EXPECT_EQ(world.Try(address, 8002), Reach::kRefused);
  });
}

TEST(NetPolicy, OnePolicyIsNoneOfAnother) {
  ForBoth([](const std::string& address) {
    World world(Asks(R"({"egress":[{"action":"allow","target":")" + address + R"("}]})"));
    const auto other = world.lab.AddGuest(2);
    EXPECT_TRUE(world.lab.network().ClaimSlot(2, Asks("{}")));
    const auto open = world.lab.AddGuest(3);
    EXPECT_TRUE(world.lab.network().ClaimSlot(3, {}));
    EXPECT_EQ(world.Try(address), Reach::kConnected);
    EXPECT_EQ(world.Try(address, kPort, other.get()), Reach::kRefused);
    EXPECT_EQ(world.Try(address, kPort, open.get()), Reach::kConnected);
  });
}

void ExpectNoPolicyElements() {
  for (const char* set : {"policed", "by_default", "proxied", "addresses4", "addresses6", "ports4",
                          "ports6", "address_ranges4", "address_ranges6", "port_ranges4",
                          "port_ranges6", "learned4", "learned6", "denied"}) {
    const char* const kind =
        std::string(set).find_first_of("46") != std::string::npos && std::string(set)[0] != 'l'
            ? "list map inet atoll7 "
            : "list set inet atoll7 ";
    EXPECT_EQ(Nft(std::string(kind) + set).find("elements"), std::string::npos) << set;
  }
}

TEST(NetPolicy, ASlotLeavesNothingToTheNextOne) {
  ForBoth([](const std::string& address) {
    World world(Asks(R"({"egress":[{"action":"allow","target":")" + address +
                     R"("},{"action":"allow","target":"198.51.100.0/24","ports":[1,2]}]})"));
    const std::string before = Nft("list table inet atoll7");
    EXPECT_NE(before.find("policed"), std::string::npos);
    ASSERT_TRUE(world.lab.network().DetachSlot(1));
    ExpectNoPolicyElements();
  });
}

// If an element is missing, the kernel rejects the deletion of all others in the same transaction.
TEST(NetPolicy, ASlotLeavesNothingWhenSomebodyHasMeddled) {
  ForBoth([](const std::string& address) {
    const std::string policy = R"({"egress":[{"action":"allow","target":")" + address +
                               R"("},{"action":"allow","target":"198.51.100.0/24"}]})";
    World world(Asks(policy));
    Nft("flush set inet atoll7 policed; flush map inet atoll7 address_ranges4");
    world.Set(R"({"egress":[{"action":"allow","target":"198.51.100.0/25"}]})");
    EXPECT_EQ(world.Try(address), Reach::kRefused);
    world.Set(policy);
    Nft("flush set inet atoll7 policed; flush map inet atoll7 address_ranges4");
    ASSERT_TRUE(world.lab.network().DetachSlot(1));
    ExpectNoPolicyElements();
  });
}

// Sends datagrams from the guest to an address. A server outside receives them, maybe at another
// address.
class Datagrams {
 public:
  Datagrams(World& world, const std::string& to, const std::string& server) {
    const Endpoint target =
        *netpolicy::ParseEndpoint(to.find(':') == std::string::npos ? to : "[" + to + "]", kPort);
    world.lab.outside().Run([&] { server_ = Listen(SOCK_DGRAM, server, kPort); });
    world.guest->ns.Run([&] {
      client_.reset(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(client_.get(), target.get(), target.size), 0);
    });
  }
  // Answers the datagram. Without an answer, connection tracking treats each datagram as a new flow
  // and the rules judge each.
  bool Arrive(int limit_ms = kPatienceMs) {
    (void)::send(client_.get(), "hello", 5, 0);
    Endpoint from;
    if (ReceiveFrom(server_.get(), &from, limit_ms) != "hello") return false;
    EXPECT_EQ(::sendto(server_.get(), "back", 4, 0, from.get(), from.size), 4);
    EXPECT_EQ(ReceiveFrom(client_.get()), "back");
    return true;
  }
  void TakePendingError() { (void)::send(client_.get(), "", 0, 0); }

 private:
  UniqueFd server_, client_;
};

TEST(NetPolicy, AFlowThatIsNotAllowedAnyMoreEnds) {
  ForBoth([](const std::string& address) {
    const std::string allow = R"({"egress":[{"action":"allow","target":")" + address + R"("}]})";
    World world(Asks(allow));
    Datagrams flow(world, address, address);
    EXPECT_TRUE(flow.Arrive());
    // Another policy that also allows the flow.
    world.Set(R"({"defaultAction":"allow"})");
    EXPECT_TRUE(flow.Arrive());
    world.Set("{}");
    EXPECT_FALSE(flow.Arrive(kSilenceMs));
    world.Set(allow);
    flow.TakePendingError();
    EXPECT_TRUE(flow.Arrive());
  });
}

TEST(NetPolicy, AFlowThatAnotherTableTranslatesEndsToo) {
  RunInOwnNetns([] {
    Nft("add table ip foreign; "
        "add chain ip foreign c { type nat hook prerouting priority -110; }; "
        "add rule ip foreign c ip daddr 203.0.113.9 dnat to 203.0.113.2");
    World world(Asks(R"({"egress":[{"action":"allow","target":"203.0.113.0/28"}]})"));
    Datagrams flow(world, "203.0.113.9", kOutside4);
    EXPECT_TRUE(flow.Arrive());
    world.Set("{}");
    EXPECT_FALSE(flow.Arrive(kSilenceMs));
  });
}

// The operator's lists may have changed before the restart.
TEST(NetPolicy, AFlowThatARestartDeniesEnds) {
  ForBoth([](const std::string& address) {
    const std::string allow = R"({"egress":[{"action":"allow","target":")" + address + R"("}]})";
    World world(Asks(allow));
    Datagrams flow(world, address, address);
    EXPECT_TRUE(flow.Arrive());
    world.lab.CloseNetwork();
    world.lab.OpenNetwork();
    ASSERT_TRUE(world.lab.network().Recover({{1, Asks(allow)}}));
    EXPECT_TRUE(flow.Arrive());
    world.lab.CloseNetwork();
    world.lab.OpenNetwork();
    const std::string deny =
        R"({"defaultAction":"allow","egress":[{"action":"deny","target":")" + address + R"("}]})";
    ASSERT_TRUE(world.lab.network().Recover({{1, Asks(deny)}}));
    EXPECT_FALSE(flow.Arrive(kSilenceMs));
  });
}

// nftables cannot change the kind of a set in place, and the rules do not fit a chain of another
// kind.
TEST(NetPolicy, ATableOfAnotherReleaseIsReplaced) {
  for (const char* left :
       {"add set inet atoll7 connections { type ipv4_addr; }",
        "add map inet atoll7 addresses4 { type ipv4_addr : mark; }",
        "add chain inet atoll7 forward { type filter hook input priority 5; }"}) {
    ForBoth([left](const std::string& address) {
      const std::string allow = R"({"egress":[{"action":"allow","target":")" + address + R"("}]})";
      World world(Asks(allow));
      Datagrams flow(world, address, address);
      EXPECT_TRUE(flow.Arrive());
      world.lab.CloseNetwork();
      Nft(std::string("delete table inet atoll7; add table inet atoll7; ") + left);
      world.lab.OpenNetwork();
      EXPECT_FALSE(flow.Arrive(kSilenceMs)) << left;
      ASSERT_TRUE(world.lab.network().Recover({{1, Asks(allow)}}));
      EXPECT_TRUE(flow.Arrive()) << left;
      EXPECT_EQ(world.Try(address == kOutside4 ? kOutside6 : kOutside4), Reach::kRefused) << left;
    });
  }
}

TEST(NetPolicy, PrivateNetworksOnlyWhenNamed) {
  RunInOwnNetns([] {
    World world(Asks(R"({"egress":[{"action":"allow","target":"0.0.0.0/0"}]})"));
    world.lab.outside().Run([] { AddAddress("ext0", "10.66.0.1", 24); });
    AddRoute("10.66.0.0", 24, kOutside4);
    EXPECT_EQ(world.Try(kOutside4), Reach::kConnected);
    EXPECT_EQ(world.Try("10.66.0.1"), Reach::kRefused);
    world.Set(R"({"egress":[{"action":"allow","target":"10.66.0.0/24"}]})");
    EXPECT_EQ(world.Try("10.66.0.1"), Reach::kConnected);
    EXPECT_EQ(world.Try(kOutside4), Reach::kRefused);
  });
}

TEST(NetPolicy, ThisHostOnlyWhenNamed) {
  RunInOwnNetns([] {
    World world(Asks(R"({"egress":[{"action":"allow","target":"0.0.0.0/0"}]})"));
    const UniqueFd listener = Listen(SOCK_STREAM, "203.0.113.1", kPort);
    const auto reach = [&] {
      Reach reached = Reach::kSilence;
      world.guest->ns.Run([&] { reached = TryConnect("203.0.113.1", kPort); });
      return reached;
    };
    EXPECT_EQ(reach(), Reach::kRefused);
    world.Set(R"({"defaultAction":"allow"})");
    EXPECT_EQ(reach(), Reach::kRefused);
    world.Set(R"({"egress":[{"action":"allow","target":"203.0.113.1"}]})");
    EXPECT_EQ(reach(), Reach::kConnected);
  });
}

TEST(NetPolicy, MembersOfANetworkReachEachOther) {
  RunInOwnNetns([] {
    SlotRequest request = Asks("{}");
    request.network = "web";
    World world(request);
    const auto peer = world.lab.AddGuest(2);
    request.sandbox = "peer";
    ASSERT_TRUE(world.lab.network().ClaimSlot(2, request));
    const auto stranger = world.lab.AddGuest(3);
    request.network = "other";
    request.sandbox = "stranger";
    ASSERT_TRUE(world.lab.network().ClaimSlot(3, request));
    // A network of the same name that belongs to a tenant.
    const auto namesake = world.lab.AddGuest(4);
    request.network = "web";
    request.tenant = "blue";
    request.sandbox = "namesake";
    ASSERT_TRUE(world.lab.network().ClaimSlot(4, request));
    for (const bool ipv6 : {false, true}) {
      const auto address = [&](const Guest& guest) {
        return ipv6 ? guest.addresses.ipv6 : guest.addresses.ipv4;
      };
      UniqueFd of_peer, of_stranger, of_namesake;
      peer->ns.Run([&] { of_peer = Listen(SOCK_STREAM, address(*peer), kPort); });
      stranger->ns.Run([&] { of_stranger = Listen(SOCK_STREAM, address(*stranger), kPort); });
      namesake->ns.Run([&] { of_namesake = Listen(SOCK_STREAM, address(*namesake), kPort); });
      namesake->ns.Run([&] { EXPECT_EQ(TryConnect(address(*peer), kPort), Reach::kRefused); });
      world.guest->ns.Run([&] {
        EXPECT_EQ(TryConnect(address(*peer), kPort), Reach::kConnected);
        EXPECT_EQ(TryConnect(address(*stranger), kPort), Reach::kRefused);
        EXPECT_EQ(TryConnect(address(*namesake), kPort), Reach::kRefused);
      });
    }
    ASSERT_TRUE(world.lab.network().DetachSlot(2));
    world.guest->ns.Run(
        [&] { EXPECT_EQ(TryConnect(peer->addresses.ipv4, kPort), Reach::kRefused); });
  });
}

TEST(NetPolicy, APolicyOf4096RulesIsSetAndReplacedWhole) {
  RunInOwnNetns([] {
    World world(Asks("{}"));
    netpolicy::Policy policy;
    for (unsigned i = 0; i < netpolicy::kMaxPolicyRules; ++i) {
      netpolicy::PolicyRule rule;
      rule.action = netpolicy::Action::kAllow;
      rule.target = "198.51." + std::to_string(i / 128) + "." + std::to_string(i % 128 * 2);
      rule.parsed = *netpolicy::ParsePolicyTarget(rule.target);
      policy.rules.push_back(rule);
    }
    for (int round = 0; round < 3; ++round) {
      const Status set = SetPolicy(world.lab.network(), 1, netpolicy::Share(policy));
      ASSERT_TRUE(set) << set.error().message();
    }
    policy.rules.back().target = kOutside4;
    policy.rules.back().parsed = *netpolicy::ParsePolicyTarget(kOutside4);
    ASSERT_TRUE(SetPolicy(world.lab.network(), 1, netpolicy::Share(policy)));
    EXPECT_EQ(world.Try(kOutside4), Reach::kConnected);
    EXPECT_EQ(world.Try(kOutside6), Reach::kRefused);
  });
}

constexpr const char* kAddressMaps[] = {
    netpolicy::kAddressMap4,   netpolicy::kAddressMap6,      netpolicy::kPortMap4,
    netpolicy::kPortMap6,      netpolicy::kAddressRangeMap4, netpolicy::kAddressRangeMap6,
    netpolicy::kPortRangeMap4, netpolicy::kPortRangeMap6,    netpolicy::kPolicedSet,
    netpolicy::kByDefaultSet,  netpolicy::kProxiedSet};

// Returns all policy elements in the kernel: keys as the kernel lists them, and the elements that
// nft(8) can print with their verdicts.
std::vector<std::string> PolicyElements() {
  std::vector<std::string> elements;
  auto netlink = netpolicy::OpenNetlink(NETLINK_NETFILTER);
  EXPECT_TRUE(netlink);
  const std::string table = netpolicy::TableName(kLabInstance);
  for (const char* map : kAddressMaps) {
    const Status listed = netpolicy::ListElements(
        netlink->get(), table, map, [&](const netpolicy::ListedElement& element) {
          elements.push_back(map + std::string(element.key.begin(), element.key.end()));
        });
    EXPECT_TRUE(listed) << listed.error().message();
  }
  std::sort(elements.begin(), elements.end());
  for (const char* map : {netpolicy::kAddressRangeMap4, netpolicy::kAddressRangeMap6}) {
    elements.push_back(Nft("list map inet " + table + " " + map));
  }
  return elements;
}

// Draws from few addresses, so that ranges touch, nest and repeat.
std::string RandomPolicy(std::mt19937& random) {
  std::string rules;
  for (unsigned i = random() % 8; i-- > 0;) {
    const unsigned bits = 26 + static_cast<unsigned>(random() % 7);
    const auto low = static_cast<unsigned>(random() % 64) & ~0u << (32 - bits);
    const std::string target =
        random() % 3 == 0 ? "2001:db8::" + std::to_string(low / 16) + "0123456789abcdef"[low % 16] +
                                "/" + std::to_string(bits + 96)
                          : "203.0.113." + std::to_string(low) + "/" + std::to_string(bits);
    rules += R"({"action":")" + std::string(random() % 2 == 0 ? "allow" : "deny") +
             R"(","target":")" + target + "\"";
    if (random() % 3 == 0) rules += R"(,"ports":[22,)" + std::to_string(80 + random() % 3) + "]";
    rules += "},";
  }
  if (random() % 3 == 0) rules += R"({"action":"allow","target":"example.com"},)";
  if (!rules.empty()) rules.pop_back();
  return R"({"defaultAction":")" + std::string(random() % 2 == 0 ? "allow" : "deny") +
         R"(","egress":[)" + rules + "]}";
}

TEST(NetPolicy, ChangesComeToTheSameAsAFreshStart) {
  RunInOwnNetns([] {
    World world(Asks("{}"));
    std::mt19937 random(5);  // NOLINT(cert-msc51-cpp): the same policies each time
    for (int round = 0; round < 120; ++round) {
      const std::string json = RandomPolicy(random);
      world.Set(json);
      const std::vector<std::string> changed = PolicyElements();
      if (round % 2 == 0) continue;  // odd rounds also apply the policy after an empty one
      world.Set("{}");
      world.Set(json);
      ASSERT_EQ(changed, PolicyElements()) << json;
    }
  });
}

TEST(NetPolicy, LiveSlotsKeepTheirsOverARestart) {
  ForBoth([](const std::string& address) {
    const SlotRequest request =
        Asks(R"({"egress":[{"action":"allow","target":")" + address + R"("}]})");
    World world(request);
    const auto denied = world.lab.AddGuest(2);
    ASSERT_TRUE(world.lab.network().ClaimSlot(2, Asks("{}")));
    world.lab.CloseNetwork();
    EXPECT_EQ(world.Try(address), Reach::kConnected) << "without a daemon";
    EXPECT_EQ(world.Try(address, kPort, denied.get()), Reach::kRefused);
    world.lab.OpenNetwork();
    ASSERT_TRUE(world.lab.network().Recover({{1, request}, {2, Asks("{}")}}));
    EXPECT_EQ(world.Try(address), Reach::kConnected);
    EXPECT_EQ(world.Try(address, kPort, denied.get()), Reach::kRefused);
    ASSERT_TRUE(SetPolicy(world.lab.network(), 1, PolicyOf("{}")));
    EXPECT_EQ(world.Try(address), Reach::kRefused);
  });
}

TEST(NetPolicy, ConnectionsHaveALimit) {
  RunInOwnNetns([] {
    World world({});
    UniqueFd listener;
    world.lab.outside().Run([&] { listener = Listen(SOCK_DGRAM, kOutside4, kPort); });
    world.guest->ns.Run([&] {
      const Endpoint target = *netpolicy::ParseEndpoint(kOutside4, kPort);
      std::vector<UniqueFd> sockets;
      bool refused = false;
      for (int i = 0; i < 200 && !refused; ++i) {
        UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::connect(socket.get(), target.get(), target.size), 0);
        (void)::send(socket.get(), "x", 1, 0);
        int error = 0;
        socklen_t size = sizeof error;
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        refused = error != 0;
        ASSERT_FALSE(refused && i < 90) << i;
        sockets.push_back(std::move(socket));
      }
      EXPECT_TRUE(refused);
    });
  });
}

// Returns the kernel's number of tracked flows. Only confirmed flows count, not refused ones.
int Tracked() {
  std::ifstream file("/proc/sys/net/netfilter/nf_conntrack_count");
  int count = -1;
  file >> count;
  return count;
}

TEST(NetPolicy, NewFlowsHaveARate) {
  RunInOwnNetns([] {
    World world({});
    const std::string gateway = world.guest->addresses.gateway_ipv4;
    for (const std::string& address : {gateway, std::string(kOutside4)}) {
      const Endpoint target = *netpolicy::ParseEndpoint(address, 53 + (address != gateway));
      const int before = Tracked();
      const auto began = std::chrono::steady_clock::now();
      world.guest->ns.Run([&] {
        for (int i = 0; i < 8000; ++i) {
          // Binds a port of its own, because connection tracking remembers the port after the
          // socket is closed.
          const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
          (void)::sendto(socket.get(), "x", 1, 0, target.get(), target.size);
        }
      });
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      const int made = Tracked() - before;
      EXPECT_LT(made, 4100 + 250 * took.count()) << address;
      EXPECT_GT(made, address == gateway ? 3000 : 90) << address;
      EXPECT_GT(world.lab.network().CountersOf(1)->denied, 1000U) << address;
    }
  });
}

TEST(NetPolicy, RefusalsAreCounted) {
  ForBoth([](const std::string& address) {
    World world(Asks("{}"));
    EXPECT_EQ(world.lab.network().CountersOf(1)->denied, 0U);
    EXPECT_EQ(world.Try(address), Reach::kRefused);
    EXPECT_EQ(world.lab.network().CountersOf(1)->denied, 1U);
    EXPECT_GE(world.lab.network().CountersOf(1)->packets_out, 1U);
  });
}

}  // namespace
}  // namespace atl::testing
