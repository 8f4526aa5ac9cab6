// Connections from and to a sandbox, tried with real sockets from inside. Each attack runs three
// times: under the rules; with the chains that stop it emptied, when it must succeed (which proves
// that the test can fail); and after the daemon has opened its network again.
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <cstring>

#include "tests/priv/net_lab.h"

namespace atl::testing {
namespace {

using netpolicy::Endpoint;

constexpr uint16_t kPort = 8000;

struct World {
  NetLab lab;
  std::unique_ptr<Guest> a, b;
  int limit_ms = kPatienceMs;  // limit for what should arrive

  World() {
    lab.OpenNetwork();
    a = lab.AddGuest(1);
    b = lab.AddGuest(258);
  }
  // Tries a TCP connection from `client` to a listener in `server` (nullptr: the host).
  bool Connects(const NetNs* client, const NetNs* server, const std::string& address) {
    UniqueFd listener;
    In(server, [&] { listener = Listen(SOCK_STREAM, address, kPort); });
    Reach reach = Reach::kSilence;
    In(client, [&] { reach = TryConnect(address, kPort, limit_ms); });
    return reach == Reach::kConnected;
  }
  bool DatagramArrives(const NetNs* client, const NetNs* server, const std::string& address,
                       const std::string& from = "") {
    UniqueFd socket;
    In(server, [&] { socket = Listen(SOCK_DGRAM, address, kPort); });
    bool sent = false;
    In(client, [&] { sent = SendDatagram(from, address, kPort, "hello"); });
    EXPECT_TRUE(sent);
    return WaitReadable(socket.get(), limit_ms);
  }
  static void In(const NetNs* ns, const std::function<void()>& f) {
    if (ns) {
      ns->Run(f);
    } else {
      f();
    }
  }
};

struct Attack {
  const char* name;
  // The chains with the rules that stop the attack.
  std::vector<const char*> defence;
  std::function<bool(World&)> succeeds;
};

void PrintTo(const Attack& attack, std::ostream* out) {
  *out << attack.name;
}

class NetAttack : public ::testing::TestWithParam<Attack> {};

TEST_P(NetAttack, FailsBecauseOfTheRules) {
  RunInOwnNetns([] {
    const Attack& attack = GetParam();
    World world;
    world.limit_ms = kSilenceMs;
    EXPECT_FALSE(attack.succeeds(world)) << "under the rules";
    world.limit_ms = kPatienceMs;
    for (const char* chain : attack.defence) Nft(std::string("flush chain inet atoll7 ") + chain);
    OpenBarrier();
    EXPECT_TRUE(attack.succeeds(world)) << "without the rules: the attack itself does not work";
    // The elements of live sandboxes are kept: allowed traffic still flows.
    world.lab.OpenNetwork();
    world.limit_ms = kSilenceMs;
    EXPECT_FALSE(attack.succeeds(world)) << "with the rules again";
  });
}

void SetMac(unsigned char last) {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "eth0", sizeof "eth0");
  ASSERT_EQ(::ioctl(fd.get(), SIOCGIFHWADDR, &request), 0);
  request.ifr_hwaddr.sa_data[5] = static_cast<char>(last);
  ASSERT_EQ(::ioctl(fd.get(), SIOCSIFHWADDR, &request), 0);
}

// Sends with the address of somebody else, which the sandbox's root could give itself.
bool SpoofedArrives(World& world, const std::string& source, int prefix,
                    const std::string& target) {
  world.a->ns.Run([&] { AddAddress("eth0", source, prefix); });
  return world.DatagramArrives(&world.a->ns, &world.lab.outside(), target, source);
}

bool ForgedMacArrives(World& world, const std::string& target) {
  world.a->ns.Run([&] {
    SetMac(0x77);
    // The kernel forgets the neighbours of a link whose address changes.
    const netpolicy::MacBytes host = netpolicy::HostMac(kLabInstance, 1);
    AddNeighbour("eth0", world.a->addresses.gateway_ipv4, host);
    AddNeighbour("eth0", world.a->addresses.gateway_ipv6, host);
  });
  return world.DatagramArrives(&world.a->ns, &world.lab.outside(), target);
}

bool RawArrives(World& world, const std::string& target, int protocol) {
  UniqueFd receiver;
  const int family = target.find(':') == std::string::npos ? AF_INET : AF_INET6;
  world.lab.outside().Run(
      [&] { receiver.reset(::socket(family, SOCK_RAW | SOCK_CLOEXEC, protocol)); });
  EXPECT_TRUE(receiver.valid());
  bool sent = false;
  world.a->ns.Run([&] { sent = SendDatagram("", target, 0, "01234567", protocol); });
  EXPECT_TRUE(sent);
  return WaitReadable(receiver.get(), world.limit_ms);
}

// The host forwards one of its ports into a container that the sandbox may not reach directly.
bool RedirectedPortConnects(World& world) {
  Nft("add table ip docker; add chain ip docker pre { type nat hook prerouting priority dstnat; };"
      "flush chain ip docker pre;"
      "add rule ip docker pre ip daddr 203.0.113.1 tcp dport 8000 dnat to 203.0.113.2");
  UniqueFd listener;
  world.lab.outside().Run([&] { listener = Listen(SOCK_STREAM, "203.0.113.2", kPort); });
  Reach reach = Reach::kSilence;
  world.a->ns.Run([&] { reach = TryConnect("203.0.113.1", kPort, world.limit_ms); });
  return reach == Reach::kConnected;
}

std::vector<Attack> Attacks() {
  std::vector<Attack> attacks;
  const auto connect_out = [](const char* address) {
    return [address](World& w) { return w.Connects(&w.a->ns, &w.lab.outside(), address); };
  };
  const auto connect_host = [](const char* address) {
    return [address](World& w) { return w.Connects(&w.a->ns, nullptr, address); };
  };
  attacks.push_back({"SiblingTcp4", {"outbound", "inbound"}, [](World& w) {
                       return w.Connects(&w.a->ns, &w.b->ns, w.b->addresses.ipv4);
                     }});
  attacks.push_back({"SiblingTcp6", {"outbound", "inbound"}, [](World& w) {
                       return w.Connects(&w.a->ns, &w.b->ns, w.b->addresses.ipv6);
                     }});
  attacks.push_back({"SiblingUdp4", {"outbound", "inbound"}, [](World& w) {
                       return w.DatagramArrives(&w.a->ns, &w.b->ns, w.b->addresses.ipv4);
                     }});
  attacks.push_back({"SiblingUdp6", {"outbound", "inbound"}, [](World& w) {
                       return w.DatagramArrives(&w.a->ns, &w.b->ns, w.b->addresses.ipv6);
                     }});
  attacks.push_back({"HostServiceTcp4", {"local", "input"}, connect_host("203.0.113.1")});
  attacks.push_back({"HostServiceTcp6", {"local", "input"}, connect_host("2001:db8::1")});
  attacks.push_back({"HostServiceUdp4", {"local", "input"}, [](World& w) {
                       return w.DatagramArrives(&w.a->ns, nullptr, "203.0.113.1");
                     }});
  attacks.push_back({"HostServiceUdp6", {"local", "input"}, [](World& w) {
                       return w.DatagramArrives(&w.a->ns, nullptr, "2001:db8::1");
                     }});
  attacks.push_back({"HostPortRedirectedElsewhere", {"local"}, RedirectedPortConnects});
  attacks.push_back({"GatewayServiceTcp4", {"gateway"}, connect_host("10.207.255.254")});
  attacks.push_back({"GatewayServiceTcp6", {"gateway"}, connect_host("fd61:746c:6c07::ffff")});
  attacks.push_back({"Metadata4", {"outbound"}, connect_out("169.254.169.254")});
  attacks.push_back({"Metadata6", {"outbound"}, connect_out("fd00:ec2::254")});
  attacks.push_back({"PrivateNetwork4", {"outbound"}, connect_out("192.168.77.1")});
  attacks.push_back({"PrivateNetwork6", {"outbound"}, connect_out("fd77::1")});
  attacks.push_back({"SpoofedSource4", {"prerouting"}, [](World& w) {
                       return SpoofedArrives(w, w.b->addresses.ipv4, 32, "203.0.113.2");
                     }});
  attacks.push_back({"SpoofedSource6", {"prerouting"}, [](World& w) {
                       return SpoofedArrives(w, w.b->addresses.ipv6, 128, "2001:db8::2");
                     }});
  attacks.push_back(
      {"ForgedMac4", {"prerouting"}, [](World& w) { return ForgedMacArrives(w, "203.0.113.2"); }});
  attacks.push_back(
      {"ForgedMac6", {"prerouting"}, [](World& w) { return ForgedMacArrives(w, "2001:db8::2"); }});
  attacks.push_back({"NewInboundTcp4", {"inbound"}, [](World& w) {
                       return w.Connects(&w.lab.outside(), &w.a->ns, w.a->addresses.ipv4);
                     }});
  attacks.push_back({"NewInboundTcp6", {"inbound"}, [](World& w) {
                       return w.Connects(&w.lab.outside(), &w.a->ns, w.a->addresses.ipv6);
                     }});
  attacks.push_back({"NewInboundUdp4", {"inbound"}, [](World& w) {
                       return w.DatagramArrives(&w.lab.outside(), &w.a->ns, w.a->addresses.ipv4);
                     }});
  attacks.push_back(
      {"Sctp4", {"outbound"}, [](World& w) { return RawArrives(w, "203.0.113.2", IPPROTO_SCTP); }});
  attacks.push_back(
      {"Gre4", {"outbound"}, [](World& w) { return RawArrives(w, "203.0.113.2", IPPROTO_GRE); }});
  attacks.push_back({"Experimental6", {"outbound"}, [](World& w) {
                       return RawArrives(w, "2001:db8::2", 253);  // RFC 3692
                     }});
  return attacks;
}

INSTANTIATE_TEST_SUITE_P(All, NetAttack, ::testing::ValuesIn(Attacks()),
                         [](const auto& test) { return test.param.name; });

// Returns true if the host's end of a link answers an ARP request for an address that the host has
// on another link.
bool AnswersArp(const Guest& guest, int limit_ms) {
  bool answered = false;
  guest.ns.Run([&] {
    const UniqueFd fd(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ARP)));
    sockaddr_ll link{};
    link.sll_family = AF_PACKET;
    link.sll_protocol = htons(ETH_P_ARP);
    link.sll_ifindex = netpolicy::kInsideIfindex;
    link.sll_halen = 6;
    std::memset(link.sll_addr, 0xff, 6);
    // Ethernet, IPv4, request; sender 06:61:74:07:00:01 10.207.0.1, target 203.0.113.1.
    const unsigned char question[28] = {0,  1,   8, 0, 6, 4, 0, 1, 0x06, 0x61, 0x74, 7, 0,   1,
                                        10, 207, 0, 1, 0, 0, 0, 0, 0,    0,    203,  0, 113, 1};
    ASSERT_EQ(::sendto(fd.get(), question, sizeof question, 0, reinterpret_cast<sockaddr*>(&link),
                       sizeof link),
              28);
    answered = WaitReadable(fd.get(), limit_ms);
  });
  return answered;
}

TEST(NetReach, HostAnswersNoArp) {
  RunInOwnNetns([] {
    World world;
    EXPECT_FALSE(AnswersArp(*world.a, kSilenceMs));
    const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::memcpy(request.ifr_name, "atl7-1", sizeof "atl7-1");
    ASSERT_EQ(::ioctl(fd.get(), SIOCGIFFLAGS, &request), 0);
    request.ifr_flags = static_cast<short>(request.ifr_flags & ~IFF_NOARP);
    ASSERT_EQ(::ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
    EXPECT_TRUE(AnswersArp(*world.a, kPatienceMs)) << "the question itself does not work";
  });
}

TEST(NetReach, OutboundTcpIsTranslated) {
  RunInOwnNetns([] {
    World world;
    for (const auto& [address, host] :
         {std::pair{"203.0.113.2", "203.0.113.1"}, std::pair{"2001:db8::2", "2001:db8::1"}}) {
      UniqueFd listener;
      world.lab.outside().Run([&] { listener = Listen(SOCK_STREAM, address, kPort); });
      Reach reach = Reach::kSilence;
      world.a->ns.Run([&] { reach = TryConnect(address, kPort); });
      EXPECT_EQ(reach, Reach::kConnected) << address;
      Endpoint peer;
      const UniqueFd accepted(::accept4(listener.get(), peer.get(), &peer.size, SOCK_CLOEXEC));
      EXPECT_EQ(peer.AddressBytes(), netpolicy::ParseEndpoint(host, 0)->AddressBytes());
    }
  });
}

// Larger than the link's MTU. The host reassembles fragments for the rules and fragments them again
// afterwards.
TEST(NetReach, OutboundUdpIsTranslatedAndAnswered) {
  RunInOwnNetns([] {
    World world;
    for (const auto& [address, host] :
         {std::pair{"203.0.113.2", "203.0.113.1"}, std::pair{"2001:db8::2", "2001:db8::1"}}) {
      UniqueFd server, client;
      const Endpoint target = *netpolicy::ParseEndpoint(address, kPort);
      world.lab.outside().Run([&] { server = Listen(SOCK_DGRAM, address, kPort); });
      world.a->ns.Run([&] {
        client.reset(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(::connect(client.get(), target.get(), target.size), 0);
      });
      const std::string question(4000, 'q');
      ASSERT_EQ(::send(client.get(), question.data(), question.size(), 0), 4000);
      Endpoint from;
      EXPECT_EQ(ReceiveFrom(server.get(), &from), question);
      EXPECT_EQ(from.AddressBytes(), netpolicy::ParseEndpoint(host, 0)->AddressBytes());
      ::sendto(server.get(), "answer", 6, 0, from.get(), from.size);
      EXPECT_EQ(ReceiveFrom(client.get()), "answer");
    }
  });
}

TEST(NetReach, PingWorks) {
  RunInOwnNetns([] {
    World world;
    for (const char* address : {"203.0.113.2", "10.207.255.254"}) {
      UniqueFd socket;
      world.a->ns.Run(
          [&] { socket.reset(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP)); });
      // Echo request 1/1 with its checksum.
      const unsigned char echo[8] = {8, 0, 0xf7, 0xfd, 0, 1, 0, 1};
      const Endpoint target = *netpolicy::ParseEndpoint(address, 0);
      ASSERT_EQ(::sendto(socket.get(), echo, sizeof echo, 0, target.get(), target.size), 8);
      EXPECT_FALSE(ReceiveFrom(socket.get()).empty()) << address;
    }
  });
}

// The sandbox sees a refusal at once, not after minutes of retries.
TEST(NetReach, RefusalsAreImmediate) {
  RunInOwnNetns([] {
    World world;
    for (const char* address : {"169.254.169.254", "192.168.77.1", "203.0.113.1", "10.207.255.254",
                                "fd00:ec2::254", "2001:db8::1"}) {
      Reach reach = Reach::kConnected;
      world.a->ns.Run([&] { reach = TryConnect(address, kPort); });
      EXPECT_EQ(reach, Reach::kRefused) << address;
    }
  });
}

}  // namespace
}  // namespace atl::testing
