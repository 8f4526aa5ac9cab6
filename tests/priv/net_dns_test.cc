// Resolves names through the gateway from inside a sandbox. The name server is on the other side of
// the host.
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "netpolicy/dns/dns_message.h"
#include "netpolicy/policy/policy_json.h"
#include "tests/priv/net_lab.h"
#include "tests/unit/netpolicy/dns_bytes.h"
#include "tests/unit/netpolicy/test_loop.h"

namespace atl::testing {
namespace {

using netpolicy::Endpoint;

// A loop whose pool stays busy as long as the test wants.
class HeldLoop final : public TestLoop {
 public:
  void RunBlocking(Callback work, Callback done) override {
    held.emplace_back(std::move(work), std::move(done));
    if (!busy) Release();
  }
  void Release() {
    for (auto& [work, done] : std::exchange(held, {})) TestLoop::RunBlocking(work, done);
  }

  bool busy = false;
  std::vector<std::pair<Callback, Callback>> held;
};

struct World {
  NetLab lab;
  HeldLoop loop;
  Health health;
  std::unique_ptr<Guest> guest;
  UniqueFd upstream_udp;
  std::array<uint8_t, 4> answer{192, 0, 2, 80};

  World() {
    // The first upstream does not exist.
    lab.OpenNetwork({"203.0.113.2:5353", "203.0.113.2"});
    EXPECT_TRUE(lab.network().Start(loop, health).has_value());
    guest = lab.AddGuest(1);
    EXPECT_TRUE(lab.network().ClaimSlot(1, {}));
    lab.outside().Run([&] { upstream_udp = Listen(SOCK_DGRAM, "203.0.113.2", 53); });
    loop.WatchReadable(upstream_udp.get(), [this] {
      Endpoint from;
      const std::string query = ReceiveFrom(upstream_udp.get(), &from);
      const std::string reply = DnsAnswerTo(query, answer);
      ::sendto(upstream_udp.get(), reply.data(), reply.size(), 0, from.get(), from.size);
    });
  }
  // The loop must get no more events of a network that is being closed.
  ~World() { lab.CloseNetwork(); }
};

TEST(NetDns, ResolvesOverUdpWithFailOver) {
  RunInOwnNetns([] {
    World world;
    for (const std::string& gateway :
         {world.guest->addresses.gateway_ipv4, world.guest->addresses.gateway_ipv6}) {
      UniqueFd client;
      const Endpoint target = *netpolicy::ParseEndpoint(gateway, 53);
      world.guest->ns.Run([&] {
        client.reset(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(::connect(client.get(), target.get(), target.size), 0);
      });
      const std::string query = DnsQueryFor("example.com", 4711);
      ASSERT_GT(::send(client.get(), query.data(), query.size(), 0), 0);
      ASSERT_TRUE(world.loop.RunUntil([&] { return WaitReadable(client.get(), 0); })) << gateway;
      EXPECT_EQ(ReceiveFrom(client.get()), DnsAnswerTo(query, {192, 0, 2, 80}));
    }
  });
}

TEST(NetDns, ResolvesOverTcp) {
  RunInOwnNetns([] {
    World world;
    for (const std::string& gateway :
         {world.guest->addresses.gateway_ipv4, world.guest->addresses.gateway_ipv6}) {
      UniqueFd client;
      const Endpoint target = *netpolicy::ParseEndpoint(gateway, 53);
      world.guest->ns.Run([&] {
        client.reset(::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(::connect(client.get(), target.get(), target.size), 0);
      });
      const std::string query = DnsQueryFor("example.com", 4711);
      const std::string framed = DnsFramed(query);
      ASSERT_GT(::send(client.get(), framed.data(), framed.size(), 0), 0);
      ASSERT_TRUE(world.loop.RunUntil([&] { return WaitReadable(client.get(), 0); })) << gateway;
      EXPECT_EQ(ReceiveFrom(client.get()), DnsFramed(DnsAnswerTo(query, {192, 0, 2, 80})));
    }
  });
}

// Flows that a new policy does not allow are cut a moment later. A flow that began in that moment,
// through a name that the policy allows, must survive.
TEST(NetDns, AFlowThatANameHasOpenedIsNotCutByALateLook) {
  RunInOwnNetns([] {
    World world;
    world.answer = {203, 0, 113, 2};
    world.loop.busy = true;
    auto policy =
        netpolicy::ParsePolicy(R"({"egress":[{"action":"allow","target":"example.com"}]})");
    ASSERT_TRUE(policy);
    const auto ready = world.lab.network().MakeReady(netpolicy::Share(*std::move(policy)), "");
    ASSERT_TRUE(ready && world.lab.network().SetPolicy(1, *ready));
    ASSERT_TRUE(world.loop.RunUntil([&] { return !world.loop.held.empty(); }));

    UniqueFd asking, client, server;
    const Endpoint gateway = *netpolicy::ParseEndpoint(world.guest->addresses.gateway_ipv4, 53);
    const Endpoint target = *netpolicy::ParseEndpoint("203.0.113.2", 9999);
    world.guest->ns.Run([&] {
      asking.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(::connect(asking.get(), gateway.get(), gateway.size), 0);
      client.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(::connect(client.get(), target.get(), target.size), 0);
    });
    world.lab.outside().Run([&] { server = Listen(SOCK_DGRAM, "203.0.113.2", 9999); });
    const std::string query = DnsQueryFor("example.com", 4711);
    ASSERT_GT(::send(asking.get(), query.data(), query.size(), 0), 0);
    ASSERT_TRUE(world.loop.RunUntil([&] { return WaitReadable(asking.get(), 0); }));
    ASSERT_EQ(::send(client.get(), "ping", 4, 0), 4);
    Endpoint from;
    ASSERT_EQ(ReceiveFrom(server.get(), &from), "ping");
    world.loop.Release();
    ASSERT_EQ(::sendto(server.get(), "pong", 4, 0, from.get(), from.size), 4);
    EXPECT_EQ(ReceiveFrom(client.get()), "pong");
  });
}

}  // namespace
}  // namespace atl::testing
