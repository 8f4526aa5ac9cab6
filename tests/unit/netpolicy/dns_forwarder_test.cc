#include "netpolicy/dns_forwarder.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "tests/unit/netpolicy/dns_bytes.h"
#include "tests/unit/netpolicy/test_loop.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the byte builders

constexpr std::array<uint8_t, 4> kAddress{192, 0, 2, 80};

// An address that no other socket of this machine uses: a UDP port that is free on 127.0.0.1 need
// not be free for TCP.
std::string OwnLoopback() {
  static int count = 0;
  const int pid = ::getpid();
  return "127." + std::to_string(64 + ++count % 64) + "." + std::to_string(pid >> 8 & 0xff) + "." +
         std::to_string(pid & 0xff);
}

Endpoint Local(const UniqueFd& fd) {
  Endpoint endpoint;
  EXPECT_EQ(::getsockname(fd.get(), endpoint.get(), &endpoint.size), 0);
  return endpoint;
}

UniqueFd Bound(int type, const Endpoint& endpoint) {
  UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  EXPECT_EQ(::bind(fd.get(), endpoint.get(), endpoint.size), 0);
  return fd;
}

std::string Read(int fd) {
  char buffer[70000];
  const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
}

// A name server on loopback whose answers the test decides. UDP and TCP on the same port.
struct Upstream {
  Upstream() {
    udp = Bound(SOCK_DGRAM, *ParseEndpoint(OwnLoopback(), 0));
    tcp = Bound(SOCK_STREAM, Local(udp));
    EXPECT_EQ(::listen(tcp.get(), 8), 0);
  }
  std::string name() const { return Local(udp).ToString(); }
  void Serve(TestLoop& loop) {
    loop.WatchReadable(udp.get(), [this] {
      char buffer[2048];
      Endpoint from;
      const ssize_t n = ::recvfrom(udp.get(), buffer, sizeof buffer, 0, from.get(), &from.size);
      ASSERT_GT(n, 0);
      queries.emplace_back(buffer, static_cast<size_t>(n));
      sources.push_back(from.ToString());
      for (const std::string& answer : answers(queries.back())) {
        ::sendto(udp.get(), answer.data(), answer.size(), 0, from.get(), from.size);
      }
    });
    loop.WatchReadable(tcp.get(), [this, &loop] {
      connection.reset(::accept4(tcp.get(), nullptr, nullptr, SOCK_CLOEXEC));
      ASSERT_TRUE(connection.valid());
      if (connection_watch != 0) loop.Unwatch(connection_watch);
      connection_watch = loop.WatchReadable(connection.get(), [this, &loop] {
        const int fd = connection.get();
        const std::string query = Read(fd);
        if (query.empty()) return loop.Unwatch(std::exchange(connection_watch, 0));
        const std::string answer = DnsFramed(tcp_answer(query.substr(2)));
        // In two pieces.
        ::send(fd, answer.data(), 1, 0);
        ::send(fd, answer.data() + 1, answer.size() - 1, 0);
      });
    });
  }

  UniqueFd udp, tcp, connection;
  Loop::Id connection_watch = 0;
  std::vector<std::string> queries, sources;
  std::function<std::vector<std::string>(const std::string&)> answers =
      [](const std::string& query) -> std::vector<std::string> {
    return {DnsAnswerTo(query, kAddress)};
  };
  std::function<std::string(const std::string&)> tcp_answer = [](const std::string& query) {
    return DnsAnswerTo(query, kAddress);
  };
};

class DnsForwarderTest : public ::testing::Test {
 protected:
  void Open(std::vector<std::string> upstreams, DnsForwarder::Limits limits = {}) {
    DnsForwarder::Config config;
    config.listen = {OwnLoopback()};
    config.port = 0;
    config.upstreams = std::move(upstreams);
    config.resolv_conf = "/nonexistent";
    config.limits = limits;
    auto opened = DnsForwarder::Open(std::move(config));
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
    forwarder = std::move(*opened);
    ASSERT_TRUE(forwarder->Start(loop).has_value());
  }
  UniqueFd Client(int type) {
    UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    const Endpoint& to = forwarder->endpoints()[0];
    EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
    return fd;
  }
  bool Readable(const UniqueFd& fd) {
    pollfd poll{fd.get(), POLLIN, 0};
    return ::poll(&poll, 1, 0) == 1;
  }
  void Send(const UniqueFd& fd, const std::string& bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string Answer(const UniqueFd& fd) {
    EXPECT_TRUE(loop.RunUntil([&] { return Readable(fd); }));
    return Readable(fd) ? Read(fd.get()) : "";
  }
  std::string Ask(const std::string& query) {
    const UniqueFd client = Client(SOCK_DGRAM);
    Send(client, query);
    return Answer(client);
  }
  std::string AskTcp(const std::string& query) {
    const UniqueFd client = Client(SOCK_STREAM);
    Send(client, DnsFramed(query));
    return Answer(client);
  }

  TestLoop loop;
  std::unique_ptr<DnsForwarder> forwarder;
};

TEST_F(DnsForwarderTest, PassesQuestionsAndAnswers) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress));
  EXPECT_EQ(AskTcp(query), DnsFramed(DnsAnswerTo(query, kAddress)));
}

TEST_F(DnsForwarderTest, AsksWithFreshIdsAndPorts) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  std::set<std::string> ids, sources;
  for (int i = 0; i < 16; ++i) Ask(DnsQueryFor("example.com", 4711));
  for (const std::string& query : upstream.queries) ids.insert(query.substr(0, 2));
  sources.insert(upstream.sources.begin(), upstream.sources.end());
  EXPECT_GT(ids.size(), 12U);
  EXPECT_GT(sources.size(), 12U);
}

TEST_F(DnsForwarderTest, TakesOnlyTheAnswerToItsQuestion) {
  Upstream upstream;
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    std::string wrong_id = DnsAnswerTo(query, {6, 6, 6, 6});
    wrong_id[0] = static_cast<char>(wrong_id[0] ^ 1);
    std::string wrong_name = DnsAnswerTo(query, {6, 6, 6, 6});
    wrong_name[13] = 'f';
    std::string no_response = DnsAnswerTo(query, {6, 6, 6, 6});
    no_response[2] = 1;
    const std::string good = DnsAnswerTo(query, kAddress);
    return {wrong_id, wrong_name, no_response, good.substr(0, 20), "", good};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress));
}

TEST_F(DnsForwarderTest, IgnoresAnswersFromElsewhere) {
  Upstream upstream, liar;
  const UniqueFd& lie = liar.udp;
  upstream.answers = [&](const std::string& query) -> std::vector<std::string> {
    const Endpoint to = *ParseEndpoint(upstream.sources.back(), 0);
    const std::string answer = DnsAnswerTo(query, {6, 6, 6, 6});
    ::sendto(lie.get(), answer.data(), answer.size(), 0, to.get(), to.size);
    return {DnsAnswerTo(query, kAddress)};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress));
}

TEST_F(DnsForwarderTest, GoesToTheNextUpstream) {
  Upstream closed, silent, failing, good;
  silent.answers = [](const std::string&) -> std::vector<std::string> { return {}; };
  failing.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsEmptyAnswerTo(query, 0x8182)};
  };
  for (Upstream* upstream : {&silent, &failing, &good}) upstream->Serve(loop);
  const std::string nobody = closed.name();
  closed.udp.reset();
  DnsForwarder::Limits limits;
  limits.timeouts.attempt_us = 200'000;
  Open({nobody, silent.name(), failing.name(), good.name()}, limits);
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress));
  EXPECT_EQ(silent.queries.size(), 1U);
  EXPECT_EQ(failing.queries.size(), 1U);
}

TEST_F(DnsForwarderTest, ARefusalIsPassedOnWhenNobodyKnowsBetter) {
  Upstream upstream;
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsEmptyAnswerTo(query, 0x8185)};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8185));
}

TEST_F(DnsForwarderTest, FailsWhenNobodyAnswers) {
  Upstream silent;
  silent.answers = [](const std::string&) -> std::vector<std::string> { return {}; };
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.timeouts = {.attempt_us = 10'000, .total_us = 40'000};
  Open({silent.name()}, limits);
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8182));
  EXPECT_GE(silent.queries.size(), 2U) << "a lost datagram is sent again";
}

TEST_F(DnsForwarderTest, FailsWithoutUpstreams) {
  Open({});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8182));
}

TEST_F(DnsForwarderTest, FetchesTruncatedAnswersOverTcpForTcpClients) {
  Upstream upstream;
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsEmptyAnswerTo(query, 0x8380)};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8380)) << "over UDP: the client asks again";
  EXPECT_EQ(AskTcp(query), DnsFramed(DnsAnswerTo(query, kAddress)));
}

TEST_F(DnsForwarderTest, TruncatesWhatAClientCannotTake) {
  Upstream upstream;
  // 40 A records: more than 512 bytes, although nobody asked for so much.
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    std::string answer =
        query.substr(0, 2) + U16(0x8180) + U16(1) + U16(40) + U16(0) + U16(0) + query.substr(12);
    for (int i = 0; i < 40; ++i) {
      answer += U16(0xc00c) + U16(1) + U16(1) + U16(0) + U16(60) + U16(4) + "abcd";
    }
    return {answer};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8380));
  EXPECT_EQ(AskTcp(query).size(), query.size() + 40 * 16 + 2);
}

TEST_F(DnsForwarderTest, AnswersBadQueriesItself) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string update = DnsHeaderBytes(1, 0x2800, 1) + DnsName("a.b") + U16(6) + U16(1);
  EXPECT_EQ(Ask(update), DnsHeaderBytes(1, 0xa884, 1) + DnsName("a.b") + U16(6) + U16(1));
  const std::string transfer = DnsQueryFor("example.com", 2, 252);
  EXPECT_EQ(Ask(transfer), DnsEmptyAnswerTo(transfer, 0x8185));
  const std::string oversized = DnsQueryFor("example.com", 3) + std::string(2000, 'x');
  EXPECT_EQ(Ask(oversized), DnsEmptyAnswerTo(DnsQueryFor("example.com", 3), 0x8181));
  EXPECT_TRUE(upstream.queries.empty());
}

TEST_F(DnsForwarderTest, LimitsQueriesOfOneSource) {
  Upstream silent;
  silent.answers = [](const std::string&) -> std::vector<std::string> { return {}; };
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.queries_per_source = 3;
  Open({silent.name()}, limits);
  const UniqueFd client = Client(SOCK_DGRAM);
  for (unsigned id = 1; id <= 4; ++id) Send(client, DnsQueryFor("example.com", id));
  EXPECT_EQ(Answer(client), DnsEmptyAnswerTo(DnsQueryFor("example.com", 4), 0x8182));
  loop.RunUntil([&] { return silent.queries.size() >= 3; });
  EXPECT_EQ(silent.queries.size(), 3U);
}

TEST_F(DnsForwarderTest, LimitsQueriesInTotal) {
  Upstream silent;
  silent.answers = [](const std::string&) -> std::vector<std::string> { return {}; };
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.queries = 2;
  Open({silent.name()}, limits);
  const UniqueFd client = Client(SOCK_DGRAM);
  for (unsigned id = 1; id <= 3; ++id) Send(client, DnsQueryFor("example.com", id));
  EXPECT_EQ(Answer(client), DnsEmptyAnswerTo(DnsQueryFor("example.com", 3), 0x8182));
}

TEST_F(DnsForwarderTest, LimitsConnectionsOfOneSource) {
  Upstream upstream;
  upstream.Serve(loop);
  DnsForwarder::Limits limits;
  limits.tcp_clients_per_source = 2;
  Open({upstream.name()}, limits);
  const UniqueFd a = Client(SOCK_STREAM), b = Client(SOCK_STREAM), c = Client(SOCK_STREAM);
  EXPECT_TRUE(loop.RunUntil([&] { return Readable(c); }));
  char byte;
  EXPECT_EQ(::recv(c.get(), &byte, 1, MSG_DONTWAIT), 0) << "closed";
  const std::string query = DnsQueryFor("example.com", 1);
  Send(b, DnsFramed(query));
  EXPECT_EQ(Answer(b), DnsFramed(DnsAnswerTo(query, kAddress)));
}

TEST_F(DnsForwarderTest, ClosesIdleAndDrippingConnections) {
  Upstream upstream;
  upstream.Serve(loop);
  DnsForwarder::Limits limits;
  limits.tcp_idle_us = 50'000;
  Open({upstream.name()}, limits);
  const UniqueFd idle = Client(SOCK_STREAM), dripping = Client(SOCK_STREAM);
  Send(dripping, U16(40) + "x");
  EXPECT_TRUE(loop.RunUntil([&] { return Readable(idle) && Readable(dripping); }));
  EXPECT_EQ(Read(idle.get()), "");
  EXPECT_EQ(Read(dripping.get()), "");
}

TEST_F(DnsForwarderTest, ClosesConnectionsWithImpossibleLengths) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  for (const unsigned size : {0U, 11U, 1025U, 65535U}) {
    const UniqueFd client = Client(SOCK_STREAM);
    Send(client, U16(size));
    EXPECT_TRUE(loop.RunUntil([&] { return Readable(client); })) << size;
    EXPECT_EQ(Read(client.get()), "") << size;
  }
}

TEST_F(DnsForwarderTest, AnswersSeveralQueriesOnOneConnection) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  const UniqueFd client = Client(SOCK_STREAM);
  const std::string one = DnsQueryFor("one.example", 1), two = DnsQueryFor("two.example", 2);
  const std::string both = DnsFramed(one) + DnsFramed(two);
  Send(client, both.substr(0, 20));
  Send(client, both.substr(20));
  const size_t expected = DnsFramed(DnsAnswerTo(one, kAddress)).size() * 2;
  std::string answers;
  EXPECT_TRUE(loop.RunUntil([&] {
    if (Readable(client)) answers += Read(client.get());
    return answers.size() >= expected;
  }));
  EXPECT_EQ(answers.size(), expected);
}

// A client that asks and never reads: its answers pile up to the limit, then it is gone.
TEST_F(DnsForwarderTest, ClosesConnectionsThatDoNotRead) {
  Upstream upstream;
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {query.substr(0, 2) + U16(0x8180) + U16(1) + U16(1) + U16(0) + U16(0) +
            query.substr(12) + U16(0xc00c) + U16(16) + U16(1) + U16(0) + U16(60) + U16(8000) +
            std::string(8000, 'x')};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int small = 4096;  // before connect: the window follows from it
  ASSERT_EQ(::setsockopt(client.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  const Endpoint& to = forwarder->endpoints()[0];
  ASSERT_EQ(::connect(client.get(), to.get(), to.size), 0);
  const auto gone = [&] {
    pollfd poll{client.get(), POLLOUT, 0};
    return ::poll(&poll, 1, 0) == 1 && (poll.revents & (POLLHUP | POLLERR)) != 0;
  };
  size_t asked = 0;
  for (; asked < 100 && !gone(); ++asked) {
    const std::string query = DnsFramed(DnsQueryFor("example.com", 1));
    (void)::send(client.get(), query.data(), query.size(), MSG_NOSIGNAL);
    loop.RunUntil([&] { return upstream.queries.size() > asked || gone(); }, 1000);
  }
  EXPECT_TRUE(gone());
  EXPECT_GT(asked, 16U) << "131 KB are kept for a slow one";
}

TEST_F(DnsForwarderTest, LeavesNothingOnTheLoop) {
  Upstream silent;
  silent.answers = [](const std::string&) -> std::vector<std::string> { return {}; };
  Open({silent.name()});
  const UniqueFd udp = Client(SOCK_DGRAM), tcp = Client(SOCK_STREAM);
  Send(udp, DnsQueryFor("example.com", 1));
  Send(tcp, DnsFramed(DnsQueryFor("example.com", 2)));
  EXPECT_TRUE(loop.RunUntil([&] { return loop.timer_count() >= 5; }));
  forwarder.reset();
  EXPECT_EQ(loop.watch_count(), 0U);
  EXPECT_EQ(loop.timer_count(), 0U);
}

}  // namespace
}  // namespace atl::netpolicy
