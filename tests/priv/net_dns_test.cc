// Names resolved through the gateway, from inside a sandbox, against a name server on the other
// side of the host.
#include <gtest/gtest.h>

#include "netpolicy/dns/dns_message.h"
#include "tests/priv/net_lab.h"
#include "tests/unit/netpolicy/dns_bytes.h"
#include "tests/unit/netpolicy/test_loop.h"

namespace atl::testing {
namespace {

using netpolicy::Endpoint;

struct World {
  NetLab lab;
  TestLoop loop;
  Health health;
  std::unique_ptr<Guest> guest;
  UniqueFd upstream_udp;

  World() {
    // The first one does not exist.
    lab.OpenNetwork({"203.0.113.2:5353", "203.0.113.2"});
    EXPECT_TRUE(lab.network().Start(loop, health).has_value());
    guest = lab.AddGuest(1);
    EXPECT_TRUE(lab.network().ClaimSlot(1, {}));
    lab.outside().Run([&] { upstream_udp = Listen(SOCK_DGRAM, "203.0.113.2", 53); });
    loop.WatchReadable(upstream_udp.get(), [this] {
      Endpoint from;
      const std::string query = ReceiveFrom(upstream_udp.get(), &from);
      const std::string answer = DnsAnswerTo(query, {192, 0, 2, 80});
      ::sendto(upstream_udp.get(), answer.data(), answer.size(), 0, from.get(), from.size);
    });
  }
  // From a network that is being taken down the loop must hear no more.
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

}  // namespace
}  // namespace atl::testing
