#include "netpolicy/splice/splice_proxy.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "netpolicy/splice/client_hello.h"
#include "tests/unit/netpolicy/splice_lab.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the lab

std::string AddressBytes(const char* address) {
  return ParseEndpoint(address, 0)->AddressBytes();
}

TEST_F(SpliceTest, PassesTlsBothWays) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  Peer client = Client("127.0.0.9");
  const std::string hello = TlsHello("A.Example");
  // The client sends its hello in pieces, and more bytes after it.
  client.Send(hello.substr(0, 10));
  const std::string more = TlsKeyExchange() + "more";
  client.Send(hello.substr(10) + more);
  Peer server = AcceptAt(listener);
  ExpectGets(server, hello + more);
  server.Send("answer");
  ExpectGets(client, "answer");
  client.Send("again");
  ExpectGets(server, "again");
  EXPECT_EQ(gate.last_source, AddressBytes("127.0.0.9"));
  EXPECT_EQ(gate.last_port, 443);
  EXPECT_EQ(dialled, std::vector<std::string>{"198.51.100.1:443"}) << "never the client's address";
  EXPECT_TRUE(gate.denials.empty());
}

TEST_F(SpliceTest, KeepsHalfClosedConnections) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  Peer client = Client();
  client.Send(TlsHello("a.example"));
  client.End();
  Peer server = AcceptAt(listener);
  ExpectEnd(server);
  EXPECT_EQ(server.got, TlsHello("a.example"));
  server.Send("answer after the end");
  ExpectGets(client, "answer after the end");
  EXPECT_FALSE(client.ended);
  server.End();
  ExpectEnd(client);
  EXPECT_TRUE(Until([&] { return proxy->connections() == 0; }));
}

TEST_F(SpliceTest, PassesResets) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  Peer client = Client(), other = Client();
  client.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  client.Reset();
  ExpectReset(server);
  other.Send(TlsHello("a.example"));
  server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  server.Reset();
  ExpectReset(other);
  EXPECT_TRUE(Until([&] { return proxy->connections() == 0; }));
}

TEST_F(SpliceTest, PassesTheResetOfOneWhoHadEnded) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  Peer client = Client();
  client.Send(TlsHello("a.example"));
  client.End();
  Peer server = AcceptAt(listener);
  ExpectEnd(server);
  client.Reset();
  EXPECT_TRUE(Until([&] { return server.Broken(); }));
}

// Sends more than all buffers on the way hold, in both directions, to a reader that begins late.
// The test sends until all buffers are full (the kernel decides how much that is: tcp_rmem,
// tcp_wmem), and then some more while the other end reads.
TEST_F(SpliceTest, LosesNothingOfMuch) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  Peer client = Client();
  client.Send(TlsHello("a.example") + TlsKeyExchange());
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example") + TlsKeyExchange());
  std::string pattern;  // its length is not a multiple of any buffer's
  for (uint32_t i = 0; pattern.size() < 1'000'004; ++i) {
    pattern.append(reinterpret_cast<const char*>(&i), sizeof i);
  }
  pattern.pop_back();
  const auto rest_at = [&](size_t offset) {
    return std::string_view(pattern).substr(offset % pattern.size());
  };
  for (auto [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
    size_t sent = 0, got = 0, total = size_t{1} << 30;
    bool same = true;
    // The loop must also wake up for arriving bytes, because nothing else may happen until the
    // proxy notices that much was read.
    const Loop::Id arrival = loop.WatchReadable(to->fd(), [] {});
    EXPECT_TRUE(Until([&] {
      const std::string_view next = rest_at(sent).substr(0, total - sent);
      const ssize_t n = ::send(from->fd(), next.data(), next.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<size_t>(n);
      const bool stalled = n < 0;
      if (stalled && total > sent + (4U << 20)) total = sent + (4U << 20);
      if (total < size_t{1} << 30) to->Read();
      for (std::string_view bytes = to->got; !bytes.empty();) {
        const std::string_view expected = rest_at(got).substr(0, bytes.size());
        same = same && bytes.substr(0, expected.size()) == expected;
        got += expected.size();
        bytes.remove_prefix(expected.size());
      }
      to->got.clear();
      return got == total;
    }));
    EXPECT_TRUE(same);
    loop.Unwatch(arrival);
  }
  EXPECT_EQ(proxy->totals().opened, 1U);
}

TEST_F(SpliceTest, RefusesNamesThatPolicyDenies) {
  Open();
  Peer client = Client("127.0.0.9");
  client.Send(TlsHello("evil.example"));
  ExpectAlert(client, 49);
  ASSERT_EQ(gate.denials.size(), 1U);
  EXPECT_EQ(gate.denials[0].source, AddressBytes("127.0.0.9"));
  EXPECT_EQ(gate.denials[0].original, "198.51.100.200:443");
  EXPECT_EQ(gate.denials[0].name, "evil.example");
  EXPECT_EQ(gate.denials[0].reason, "not allowed by policy");
  EXPECT_TRUE(gate.resolved.empty());
  EXPECT_TRUE(dialled.empty());
}

TEST_F(SpliceTest, NeverDialsWhatIsNotOutside) {
  Open();
  gate.unnamed = true;
  gate.allowed.insert("a.example");
  for (const char* text : {"127.0.0.1", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1",
                           "255.255.255.255", "240.0.0.1"}) {
    IpAddress address;
    const std::string bytes = AddressBytes(text);
    std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
    gate.addresses["a.example"] = {address};
    Peer client = Client();
    client.Send(TlsHello("a.example"));
    ExpectAlert(client, 49);
    // The same for the original destination of a client that sends no name.
    original = *ParseEndpoint(text, 443);
    Peer direct = Client();
    direct.Send(TlsRecord(TlsMessage(TlsBody(""))));
    // The proxy of this test listens on the loopback address.
    std::string(text) == "127.0.0.1" ? ExpectReset(direct) : ExpectAlert(direct, 49);
    SetPort(443);
  }
  for (const char* text :
       {"::", "::1", "::7f00:1", "::ffff:198.51.100.1", "fe80::1", "febf::1", "ff02::1"}) {
    IpAddress address;
    address.ipv6 = true;
    const std::string bytes = AddressBytes((std::string("[") + text + "]:1").c_str());
    std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
    EXPECT_TRUE(NeverDialled(address)) << text;
  }
  EXPECT_FALSE(NeverDialled(Nominal6(1)));
  EXPECT_FALSE(NeverDialled(Nominal(1)));
  EXPECT_TRUE(dialled.empty());
}

TEST_F(SpliceTest, RefusesWhoSpeaksToTheProxyItself) {
  Open();
  gate.unnamed = true;
  for (const auto& destination : {std::optional<Endpoint>(), std::optional(proxy->endpoints()[0]),
                                  std::optional(*ParseEndpoint("127.0.0.1", 443))}) {
    original = destination;
    Peer client = Client();
    ExpectReset(client);
    EXPECT_EQ(LastReason(), "connection to the proxy itself");
  }
  EXPECT_EQ(proxy->connections(), 0U);
}

// No rule has redirected these connections, so the kernel reports no original destination.
TEST_F(SpliceTest, NoOriginalDestinationWithoutRedirection) {
  Listener listener;
  const UniqueFd client = BoundStream("127.0.0.1");
  const Endpoint to = listener.endpoint();
  ASSERT_EQ(::connect(client.get(), to.get(), to.size), 0);
  const Peer server = listener.Accept();
  ASSERT_TRUE(server.valid());
  const auto destination = OriginalDestination(server.fd());
  // A kernel with connection tracking reports the connection's own address, which the proxy also
  // refuses.
  if (destination) {
    EXPECT_EQ(destination->ToString(), to.ToString());
  }
}

TEST_F(SpliceTest, TriesTheNextAddressAndTheClientsFamilyFirst) {
  Listener listener;
  Serve("a.example", 3, listener);
  Listener closed;
  servers["198.51.100.1:443"] = closed.endpoint();
  closed = Listener();
  gate.addresses["a.example"] = {Nominal6(9), Nominal(1), Nominal(2), Nominal(3)};
  SpliceProxy::Limits limits;
  limits.timeouts.dial.attempt_us = 50'000;
  Open(limits);
  Peer client = Client();
  client.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  EXPECT_EQ(dialled,
            (std::vector<std::string>{"198.51.100.1:443", "198.51.100.2:443", "198.51.100.3:443"}));
}

TEST_F(SpliceTest, TreatsIpv6Alike) {
  Listener listener("::1");
  gate.allowed.insert("a.example");
  gate.addresses["a.example"] = {Nominal(1), Nominal6(9)};
  servers["[2001:db8::9]:443"] = listener.endpoint();
  original = *ParseEndpoint("[2001:db8::77]:443", 443);
  Open({}, {"127.0.0.1", "::1"});
  const Endpoint& to = proxy->endpoints()[1];
  EXPECT_EQ(to.ToString().substr(5), proxy->endpoints()[0].ToString().substr(9)) << "one port";
  UniqueFd fd = BoundStream("::1");
  ASSERT_EQ(::connect(fd.get(), to.get(), to.size), 0);
  Peer client(std::move(fd));
  client.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  EXPECT_EQ(dialled, std::vector<std::string>{"[2001:db8::9]:443"}) << "the client's family first";
  EXPECT_EQ(gate.last_source, AddressBytes("[::1]:1"));
}

TEST_F(SpliceTest, FailsWhenNobodyAnswers) {
  gate.allowed = {"a.example", "none.example"};
  gate.addresses["a.example"] = {Nominal(1), Nominal(2), Nominal6(3)};
  SpliceProxy::Limits limits;
  limits.timeouts.dial = {.attempt_us = 30'000, .total_us = 80'000};
  Open(limits);
  Peer client = Client();
  client.Send(TlsHello("a.example"));
  ExpectAlert(client, 80);
  EXPECT_GE(dialled.size(), 2U);
  Peer unknown = Client();
  unknown.Send(TlsHello("none.example"));
  ExpectAlert(unknown, 80);
  SetPort(80);
  Peer http = Client();
  http.Send("GET / HTTP/1.1\r\nHost: none.example\r\n\r\n");
  ExpectStatus(http, "502 Bad Gateway");
  EXPECT_EQ(proxy->totals().failed, 3U);
  EXPECT_TRUE(gate.denials.empty());
}

TEST_F(SpliceTest, ResolvesInTime) {
  gate.allowed = {"a.example"};
  gate.silent = true;
  SpliceProxy::Limits limits;
  limits.timeouts.dial.total_us = 30'000;
  Open(limits);
  Peer client = Client();
  client.Send(TlsHello("a.example"));
  ExpectAlert(client, 80);
  EXPECT_EQ(gate.pending(), 0U) << "cancelled";
}

TEST_F(SpliceTest, TakesAnswersFromWithinTheQuestion) {
  Listener listener;
  Serve("a.example", 1, listener);
  gate.allowed.insert("none.example");
  gate.at_once = true;
  Open();
  Peer client = Client(), failing = Client();
  client.Send(TlsHello("a.example"));
  failing.Send(TlsHello("none.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  ExpectAlert(failing, 80);
}

TEST_F(SpliceTest, ClosesSilentAndDrippingClients) {
  SpliceProxy::Limits limits;
  limits.timeouts.head_us = 50'000;
  Open(limits);
  Peer silent = Client(), dripping = Client();
  dripping.Send(TlsHello("a.example").substr(0, 20));
  ExpectEnd(silent);
  ExpectEnd(dripping);
  EXPECT_EQ(silent.got + dripping.got, "");
  EXPECT_EQ(gate.denials.size(), 2U);
}

TEST_F(SpliceTest, RefusesOtherProtocolsAndLongHeads) {
  Open();
  Peer garbage = Client();
  garbage.Send(std::string("\x80\x2e\x01\x00\x02", 5));
  ExpectEnd(garbage);
  EXPECT_EQ(LastReason(), "neither TLS nor HTTP");
  Peer tls = Client();
  tls.Send(TlsRecord(TlsNumber(1, 1) + TlsNumber(kMaxClientHello + 1, 3)));
  ExpectAlert(tls, 50);
  SetPort(80);
  Peer http = Client();
  http.Send("GET / HTTP/1.1\r\nX: " + std::string(kMaxHttpHead, 'x'));
  ExpectStatus(http, "403 Forbidden");
}

TEST_F(SpliceTest, ClosesIdleConnections) {
  Listener listener;
  Serve("a.example", 1, listener);
  SpliceProxy::Limits limits;
  limits.timeouts.idle_us = 1'000'000;
  Open(limits);
  Peer client = Client();
  client.Send(TlsHello("a.example") + TlsKeyExchange());
  Peer server = AcceptAt(listener);
  // Lasts longer than the limit but is never idle, unless this process gets no CPU for 0.9 s.
  int sent = 0;
  Loop::Id timer = 0;
  const std::function<void()> drip = [&] {
    client.Send("x");
    if (++sent < 12) timer = loop.After(100'000, drip);
  };
  drip();
  ExpectGets(server, TlsHello("a.example") + TlsKeyExchange() + "xxxxxxxxxxxx");
  ExpectReset(client);
  ExpectReset(server);
}

TEST_F(SpliceTest, LimitsConnectionsOfOneSource) {
  SpliceProxy::Limits limits;
  limits.connections_per_source = 2;
  Open(limits);
  Peer a = Client("127.0.0.5"), b = Client("127.0.0.5"), c = Client("127.0.0.5");
  ExpectReset(c);
  Peer other = Client("127.0.0.6");
  EXPECT_TRUE(Until([&] { return proxy->connections() == 3; }));
  a.Close();
  EXPECT_TRUE(Until([&] { return proxy->connections() == 2; }));
  Peer d = Client("127.0.0.5");
  EXPECT_TRUE(Until([&] { return proxy->connections() == 3; }));
  EXPECT_EQ(proxy->totals().over_limit, 1U);
}

TEST_F(SpliceTest, LimitsConnectionsWithoutAServer) {
  Listener listener;
  Serve("a.example", 1, listener);
  SpliceProxy::Limits limits;
  limits.undialled_per_source = 1;
  Open(limits);
  Peer a = Client();
  EXPECT_TRUE(Until([&] { return proxy->connections() == 1; }));
  Peer b = Client();
  ExpectReset(b);
  a.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  Peer c = Client();
  EXPECT_TRUE(Until([&] { return proxy->connections() == 2; }));
  EXPECT_EQ(proxy->totals().over_limit, 1U);
}

TEST_F(SpliceTest, NoNumberOfSourcesTakesAll) {
  SpliceProxy::Limits limits;
  limits.connections = 32;
  Open(limits);
  std::vector<Peer> peers;
  for (int source = 1; source <= 6; ++source) {
    const uint64_t refused = proxy->totals().over_limit;
    while (proxy->totals().over_limit == refused && peers.size() < 100) {
      const size_t accepted = proxy->connections();
      peers.push_back(Client(("127.0.1." + std::to_string(source)).c_str()));
      EXPECT_TRUE(Until(
          [&] { return proxy->connections() > accepted || proxy->totals().over_limit > refused; }));
    }
  }
  const size_t held = proxy->connections();
  EXPECT_LT(held, 32U);
  Peer modest = Client("127.0.2.1");
  EXPECT_TRUE(Until([&] { return proxy->connections() == held + 1; }));
}

TEST_F(SpliceTest, LimitsConnectionsInTotal) {
  SpliceProxy::Limits limits;
  limits.connections = 2;
  Open(limits);
  Peer a = Client("127.0.0.5"), b = Client("127.0.0.6"), c = Client("127.0.0.7");
  ExpectReset(c);
  EXPECT_EQ(proxy->connections(), 2U);
}

TEST_F(SpliceTest, CutsWhatPolicyTakesBack) {
  Listener one, two;
  Serve("a.example", 1, one);
  Serve("b.example", 2, two);
  Open();
  Peer a = Client("127.0.0.5"), b = Client("127.0.0.5"), other = Client("127.0.0.6");
  a.Send(TlsHello("a.example"));
  b.Send(TlsHello("b.example"));
  Peer server_a = AcceptAt(one), server_b = AcceptAt(two);
  ExpectGets(server_a, TlsHello("a.example"));
  other.Send(TlsHello("a.example"));
  Peer server_other = AcceptAt(one);
  gate.allowed.erase("a.example");
  proxy->Rejudge(AddressBytes("127.0.0.5"));
  ExpectReset(a);
  ExpectReset(server_a);
  b.Send(TlsKeyExchange() + "still");
  ExpectGets(server_b, TlsHello("b.example") + TlsKeyExchange() + "still");
  EXPECT_EQ(proxy->connections(), 2U);
  EXPECT_EQ(proxy->totals().cut, 1U);
  // A connection that is not established yet.
  gate.silent = true;
  Peer c = Client("127.0.0.5");
  c.Send(TlsHello("b.example"));
  EXPECT_TRUE(Until([&] { return gate.pending() == 1; }));
  gate.allowed.clear();
  proxy->Rejudge(AddressBytes("127.0.0.5"));
  ExpectReset(c);
  ExpectReset(b);
  EXPECT_EQ(gate.pending(), 0U);
}

TEST_F(SpliceTest, CutsWhatLeadsToAnAddressThatMayNotBeReachedAnyMore) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  Peer client = Client();
  client.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  gate.reaches = false;
  proxy->Rejudge(AddressBytes("127.0.0.1"));
  ExpectReset(client);
  EXPECT_EQ(proxy->totals().cut, 1U);
  // The policy changes while the proxy connects.
  Peer late = Client();
  late.Send(TlsHello("a.example"));
  EXPECT_TRUE(Until([&] { return proxy->totals().refused == 1; }));
  EXPECT_EQ(proxy->totals().opened, 1U);
}

TEST_F(SpliceTest, ForgetsASource) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  Peer open = Client("127.0.0.5"), fresh = Client("127.0.0.5"), other = Client("127.0.0.6");
  open.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
  EXPECT_TRUE(Until([&] { return proxy->connections() == 3; }));
  proxy->Forget(AddressBytes("127.0.0.5"));
  ExpectReset(open);
  ExpectReset(server);
  ExpectReset(fresh);
  EXPECT_EQ(proxy->sources(), 1U);
  EXPECT_EQ(proxy->connections(), 1U);
}

TEST_F(SpliceTest, LeavesNoDescriptors) {
  Listener listener;
  Serve("a.example", 1, listener);
  SpliceProxy::Limits limits;
  limits.idle_pipes = 0;
  limits.timeouts.dial = {.attempt_us = 10'000, .total_us = 20'000};
  const size_t before = OpenDescriptors();
  Open(limits);
  gate.allowed.insert("dead.example");
  gate.addresses["dead.example"] = {Nominal(77)};
  const size_t idle = OpenDescriptors();
  for (int i = 0; i < 20; ++i) {
    Peer passed = Client(), refused = Client(), cut = Client(), failed = Client(), gone = Client();
    refused.Send(TlsHello("evil.example"));
    failed.Send(TlsHello("dead.example"));
    gone.Send("x");
    gone.Reset();
    passed.Send(TlsHello("a.example"));
    Peer server = AcceptAt(listener);
    ExpectGets(server, TlsHello("a.example"));
    cut.Send(TlsHello("a.example"));
    Peer server_of_cut = AcceptAt(listener);
    // The connection has bytes in its pipe that nobody reads.
    const std::string much(1 << 20, 'x');
    while (::send(cut.fd(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    ExpectAlert(refused, 49);
    ExpectAlert(failed, 80);
    cut.Reset();
    server_of_cut.Reset();
    server.End();
    ExpectEnd(passed);
    passed.End();
    EXPECT_TRUE(Until([&] { return proxy->connections() <= 2; }));
    refused.Close();
    failed.Close();
    EXPECT_TRUE(Until([&] { return proxy->connections() == 0; }));
  }
  EXPECT_EQ(OpenDescriptors(), idle);
  EXPECT_EQ(proxy->sources(), 0U);
  EXPECT_EQ(loop.timer_count(), 0U);
  proxy.reset();
  EXPECT_EQ(loop.watch_count(), 0U);
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(SpliceTest, EndsWithConnectionsInEveryState) {
  Listener listener;
  Serve("a.example", 1, listener);
  gate.allowed.insert("dead.example");
  gate.addresses["dead.example"] = {Nominal(77)};
  Open();
  Peer fresh = Client(), dialling = Client(), open = Client(), refused = Client();
  open.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  dialling.Send(TlsHello("dead.example"));
  refused.Send(TlsHello("evil.example"));
  EXPECT_TRUE(Until([&] { return !gate.denials.empty() && dialled.size() == 2; }));
  gate.silent = true;
  Peer resolving = Client();
  resolving.Send(TlsHello("a.example"));
  EXPECT_TRUE(Until([&] { return gate.pending() == 1; }));
  proxy.reset();
  EXPECT_EQ(gate.pending(), 0U);
  EXPECT_EQ(loop.watch_count(), 0U);
  EXPECT_EQ(loop.timer_count(), 0U);
}

// Descriptors are limited, too. Waiting clients are accepted when some are free again.
TEST_F(SpliceTest, WaitsForDescriptors) {
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  Peer client = Client();
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  rlimit none = usual;
  none.rlim_cur = static_cast<rlim_t>(UniqueFd(::eventfd(0, EFD_CLOEXEC)).get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int turns = 0;
  const std::function<void()> count = [&] {
    if (++turns < 3) loop.After(20'000, count);
  };
  count();
  Until([&] { return turns == 3; });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(proxy->connections(), 0U);
  client.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener);
  ExpectGets(server, TlsHello("a.example"));
}

// A turn does a limited amount of work, because the loop has other connections to serve.
TEST_F(SpliceTest, DoesALimitedAmountInEachTurn) {
  constexpr uint64_t kTurn = 1024 * 1024, kOvershoot = 512 * 1024;
  Listener listener;
  Serve("a.example", 1, listener);
  Open();
  std::vector<Peer> clients, servers_of;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(Client());
    clients.back().Send(TlsHello("a.example") + TlsKeyExchange());
    servers_of.push_back(AcceptAt(listener));
    ExpectGets(servers_of.back(), TlsHello("a.example") + TlsKeyExchange());
  }
  const uint64_t before = proxy->totals().bytes_up;
  const std::string much(1 << 20, 'x');
  for (Peer& client : clients) {
    (void)::send(client.fd(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  uint64_t last = before, most = 0;
  EXPECT_TRUE(Until([&] {
    const uint64_t now = proxy->totals().bytes_up;
    most = std::max(most, now - last);
    last = now;
    return now - before > 3 * kTurn;
  }));
  EXPECT_LE(most, kTurn + kOvershoot);
  EXPECT_GT(most, kTurn / 2) << "the test is too small";
}

}  // namespace
}  // namespace atl::netpolicy
