#include "netpolicy/dns/dns_forwarder.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tests/unit/netpolicy/dns_fixture.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the fixture

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
  for (int i = 0; i < 16; ++i) Ask(DnsQueryFor(std::to_string(i) + ".example.com", 4711));
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
    std::string wrong_type = DnsAnswerTo(query, {6, 6, 6, 6});
    wrong_type[query.find('\0', 12) + 2] = 28;
    std::string no_response = DnsAnswerTo(query, {6, 6, 6, 6});
    no_response[2] = 1;
    const std::string good = DnsAnswerTo(query, kAddress);
    return {wrong_id, wrong_name, wrong_type, no_response, good.substr(0, 20), "", good};
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
  SilentUpstream silent;
  Upstream closed, failing, good;
  failing.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsEmptyAnswerTo(query, 0x8182)};
  };
  for (Upstream* upstream : {static_cast<Upstream*>(&silent), &failing, &good})
    upstream->Serve(loop);
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

// The answer takes twice as long as the retry interval. The retry uses the same port and the same
// id, so that a spoofer has no more to hit.
TEST_F(DnsForwarderTest, TakesTheLateAnswerOfASlowUpstream) {
  SilentUpstream slow;
  slow.Serve(loop);
  DnsForwarder::Limits limits;
  limits.timeouts = {.attempt_us = 200'000, .total_us = 60'000'000};
  Open({slow.name()}, limits);
  const UniqueFd client = Client(SOCK_DGRAM);
  const std::string query = DnsQueryFor("example.com", 4711);
  Send(client, query);
  EXPECT_TRUE(loop.RunUntil([&] { return slow.queries.size() == 3; }));
  EXPECT_EQ(slow.queries[0], slow.queries[1]);
  EXPECT_EQ(slow.sources[0], slow.sources[1]);
  const Endpoint to = *ParseEndpoint(slow.sources[0], 0);
  const std::string late = DnsAnswerTo(slow.queries[0], kAddress);
  ::sendto(slow.udp.get(), late.data(), late.size(), 0, to.get(), to.size);
  EXPECT_EQ(Answer(client), DnsAnswerTo(query, kAddress));
}

TEST_F(DnsForwarderTest, TakesTheLateAnswerOfWhomItDidNotWaitFor) {
  SilentUpstream slow, silent;
  slow.Serve(loop);
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.timeouts = {.attempt_us = 20'000, .total_us = 60'000'000};
  Open({slow.name(), silent.name()}, limits);
  const UniqueFd client = Client(SOCK_DGRAM);
  const std::string query = DnsQueryFor("example.com", 4711);
  Send(client, query);
  // The forwarder asks both in turn, three times each. Then it only waits.
  EXPECT_TRUE(loop.RunUntil([&] { return silent.queries.size() == 3 && loop.timer_count() == 1; }));
  EXPECT_EQ(slow.queries.size(), 3U);
  EXPECT_EQ(silent.queries.size(), 3U);
  const Endpoint to = *ParseEndpoint(slow.sources[0], 0);
  const std::string late = DnsAnswerTo(slow.queries[0], kAddress);
  ::sendto(slow.udp.get(), late.data(), late.size(), 0, to.get(), to.size);
  EXPECT_EQ(Answer(client), DnsAnswerTo(query, kAddress));
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
  SilentUpstream silent;
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.timeouts = {.attempt_us = 10'000, .total_us = 500'000};
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

TEST_F(DnsForwarderTest, FetchesTruncatedAnswersOverTcp) {
  Upstream upstream;
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsEmptyAnswerTo(query, 0x8380)};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string one = DnsQueryFor("one.example", 1), two = DnsQueryFor("two.example", 2);
  EXPECT_EQ(Ask(one), DnsAnswerTo(one, kAddress));
  EXPECT_EQ(AskTcp(two), DnsFramed(DnsAnswerTo(two, kAddress)));
}

TEST_F(DnsForwarderTest, SaysSoWhenNoWholeAnswerCanBeHad) {
  Upstream upstream;
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    // Records of a truncated answer are not used.
    std::string answer = DnsAnswerTo(query, {6, 6, 6, 6});
    answer[2] = static_cast<char>(0x83);
    return {answer};
  };
  upstream.Serve(loop);
  upstream.tcp_answer = [](const std::string&) { return "no answer"; };
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 1);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8380));
  EXPECT_EQ(AskTcp(query), DnsFramed(DnsEmptyAnswerTo(query, 0x8182)));
}

// The test knows the whole outgoing message: only the client's name gets out.
TEST_F(DnsForwarderTest, WritesQueriesAnew) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string option = U16(8) + U16(4) + "leak", cookie = U16(10) + U16(8) + "12345678";
  const std::string options = option + cookie;
  const std::string asked = DnsHeaderBytes(1, 0x0070, 1, 0, 0, 1) + DnsName("LeAk.Example") +
                            U16(1) + U16(1) + std::string(1, '\0') + U16(41) + U16(4096) + U16(0) +
                            U16(0x8abc) + U16(static_cast<unsigned>(options.size())) + options;
  const std::string answer = Ask(asked);
  ASSERT_EQ(upstream.queries.size(), 1U);
  EXPECT_EQ(upstream.queries[0].substr(2),
            (DnsHeaderBytes(0, 0x0110, 1, 0, 0, 1) + DnsName("leak.example") + U16(1) + U16(1) +
             DnsOptBytes(0x8000))
                .substr(2));
  std::string expected = DnsAnswerTo(asked, kAddress) + DnsOptBytes(0x8000);
  expected.replace(0, 12, DnsHeaderBytes(1, 0x8090, 1, 1, 0, 1));
  EXPECT_EQ(answer, expected) << "the name in the letters of the question, no option";
}

TEST_F(DnsForwarderTest, AsksWithoutEdnsWhoDoesNotKnowIt) {
  Upstream upstream;
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    if (query[11] != 0)
      return {DnsHeaderBytes(0, 0x8181, 1).replace(0, 2, query.substr(0, 2)) +
              DnsQuestionOf(query)};
    return {DnsAnswerTo(query, kAddress)};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress));
  EXPECT_EQ(upstream.queries.size(), 2U);
}

TEST_F(DnsForwarderTest, TruncatesWhatAClientCannotTake) {
  Upstream upstream;
  // 40 A records: more than 512 bytes, although the query allowed no more.
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsRecordsTo(query,
                         std::vector<std::string>(40, DnsRecordBytes(U16(0xc00c), 1, 60, "abcd")))};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 4711);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8380));
  EXPECT_EQ(AskTcp(query).size(), query.size() + 40 * 16 + 2);
  const std::string edns = DnsEdnsQueryFor("example.com", 4711, 1232);
  EXPECT_EQ(Ask(edns).size(), edns.size() + 40 * 16);
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
  SilentUpstream silent;
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.source.queries = 3;
  Open({silent.name()}, limits);
  const UniqueFd client = Client(SOCK_DGRAM);
  const auto query = [](unsigned id) { return DnsQueryFor(std::to_string(id) + ".example", id); };
  for (unsigned id = 1; id <= 4; ++id) Send(client, query(id));
  EXPECT_EQ(Answer(client), DnsEmptyAnswerTo(query(4), 0x8182));
  loop.RunUntil([&] { return silent.queries.size() >= 3; });
  EXPECT_EQ(silent.queries.size(), 3U);
}

TEST_F(DnsForwarderTest, LimitsQueriesInTotal) {
  SilentUpstream silent;
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.queries = 2;
  Open({silent.name()}, limits);
  const UniqueFd a = Client(SOCK_DGRAM, "127.0.0.5"), b = Client(SOCK_DGRAM, "127.0.0.6");
  Send(a, DnsQueryFor("example.com", 1));
  Send(b, DnsQueryFor("example.com", 2));
  EXPECT_TRUE(loop.RunUntil([&] { return !silent.queries.empty(); }));
  EXPECT_EQ(Ask(DnsQueryFor("example.com", 3), "127.0.0.7"),
            DnsEmptyAnswerTo(DnsQueryFor("example.com", 3), 0x8182));
}

TEST_F(DnsForwarderTest, NoNumberOfSourcesTakesAll) {
  SilentUpstream silent;
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.queries = 64;
  limits.timeouts.total_us = 60'000'000;  // long, so that only an immediate refusal passes the test
  Open({silent.name()}, limits);
  std::vector<UniqueFd> greedy;
  for (int source = 1; source <= 20; ++source) {
    greedy.push_back(Client(SOCK_DGRAM, "127.0.1." + std::to_string(source)));
    for (unsigned id = 1; id <= 20; ++id) {
      Send(greedy.back(), DnsQueryFor(std::to_string(source * 100) + ".example", id));
    }
    EXPECT_TRUE(loop.RunUntil([&] { return Readable(greedy.back()); })) << "more than it gets";
  }
  const UniqueFd modest = Client(SOCK_DGRAM, "127.0.2.1");
  Send(modest, DnsQueryFor("modest.example", 1));
  const auto asked = [&](const std::string& name) {
    return std::any_of(silent.queries.begin(), silent.queries.end(), [&](const std::string& query) {
      return query.find(name) != std::string::npos;
    });
  };
  EXPECT_TRUE(loop.RunUntil([&] { return asked("modest"); }));
  EXPECT_FALSE(Readable(modest));
}

TEST_F(DnsForwarderTest, ResolvesForAConnection) {
  Upstream upstream;
  upstream.Serve(loop);
  FakeDnsGate gate;
  gate.otherwise.verdict = DnsGate::Verdict::kNxDomain;
  DnsForwarder::Limits limits;
  limits.source.leaving = {1, 2};
  Open({upstream.name()}, limits, &gate);
  const auto resolve = [&](const std::string& name, bool under_policy = true) {
    std::optional<size_t> found;
    forwarder->Resolve("source", name, under_policy,
                       [&](const auto& addresses) { found = addresses.size(); });
    EXPECT_FALSE(found) << "never at once";
    EXPECT_TRUE(loop.RunUntil([&] { return found.has_value(); }));
    return found;
  };
  EXPECT_EQ(resolve("a.example"), 1U);
  EXPECT_EQ(upstream.queries.size(), 2U) << "of both families";
  EXPECT_EQ(resolve("b.example"), 1U);
  EXPECT_EQ(resolve("c.example"), 0U) << "the budget for names that leave";
  EXPECT_EQ(upstream.queries.size(), 4U);
  EXPECT_EQ(resolve("a.example"), 1U) << "does not leave again";
  EXPECT_EQ(resolve("c.example", false), 1U);
  EXPECT_TRUE(gate.judged.empty() && gate.learned.empty()) << "it has let the connection pass";
}

TEST_F(DnsForwarderTest, WhatIsKnownOfOneFamilyLeavesForTheOtherWithinTheBudget) {
  Upstream upstream;  // the forwarder cannot cache this server's answer for IPv6
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsRecordsTo(query, {DnsRecordBytes(DnsName("a.example"), 1, 60, "abcd")})};
  };
  upstream.Serve(loop);
  DnsForwarder::Limits limits;
  limits.source.leaving = {1, 3};
  Open({upstream.name()}, limits);
  for (int i = 0; i < 20; ++i) {
    std::optional<size_t> found;
    forwarder->Resolve("source", "a.example", true,
                       [&](const auto& addresses) { found = addresses.size(); });
    EXPECT_TRUE(loop.RunUntil([&] { return found.has_value(); }));
    EXPECT_EQ(found, 1U) << "what is known needs no budget";
  }
  EXPECT_EQ(upstream.queries.size(), 4U) << "both at first, and twice for the other";
}

TEST_F(DnsForwarderTest, NamesOfConnectionsAreQueriesOfTheSource) {
  SilentUpstream silent;
  silent.Serve(loop);
  DnsForwarder::Limits limits;
  limits.source.queries = 1;
  Open({silent.name()}, limits);
  int refused = 0, others = 0;
  const auto first = forwarder->Resolve("s", "a.example", false, [&](const auto&) { ++others; });
  forwarder->Resolve("s", "b.example", false, [&](const auto&) { ++refused; });
  EXPECT_TRUE(loop.RunUntil([&] { return refused == 1; }));
  forwarder->CancelResolve(first);
  forwarder->Resolve("s", "c.example", false, [&](const auto&) { ++others; });
  forwarder->Resolve("s", "d.example", false, [&](const auto&) { ++refused; });
  EXPECT_TRUE(loop.RunUntil([&] { return refused == 2; }));
  EXPECT_EQ(others, 0);
}

TEST_F(DnsForwarderTest, LimitsConnectionsOfOneSource) {
  Upstream upstream;
  upstream.Serve(loop);
  DnsForwarder::Limits limits;
  limits.source.connections = 2;
  Open({upstream.name()}, limits);
  const UniqueFd a = Client(SOCK_STREAM), b = Client(SOCK_STREAM), c = Client(SOCK_STREAM);
  EXPECT_TRUE(loop.RunUntil([&] { return Readable(c); }));
  char byte;
  EXPECT_EQ(::recv(c.get(), &byte, 1, MSG_DONTWAIT), 0) << "closed";
  const std::string query = DnsQueryFor("example.com", 1);
  Send(b, DnsFramed(query));
  EXPECT_EQ(Answer(b), DnsFramed(DnsAnswerTo(query, kAddress)));
}

// Descriptors are limited, too. A client that waits is served when some are free again. Until then
// the loop must stay idle.
TEST_F(DnsForwarderTest, ConnectionsWaitForDescriptors) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  const UniqueFd client = Client(SOCK_STREAM);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  rlimit none = usual;
  none.rlim_cur = static_cast<rlim_t>(UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, 0)).get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int turns = 0;
  bool over = false;
  loop.After(300'000, [&] { over = true; });
  EXPECT_TRUE(loop.RunUntil([&] { return ++turns > 1000 || over; }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_LT(turns, 20);
  const std::string query = DnsQueryFor("example.com", 4711);
  Send(client, DnsFramed(query));
  EXPECT_EQ(Answer(client), DnsFramed(DnsAnswerTo(query, kAddress)));
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

// A client that asks and never reads. Its answers pile up to the limit, then it is disconnected.
TEST_F(DnsForwarderTest, ClosesConnectionsThatDoNotRead) {
  Upstream upstream;
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsRecordsTo(query, {DnsRecordBytes(U16(0xc00c), 16, 0, std::string(8000, 'x'))})};
  };
  upstream.Serve(loop);
  Open({upstream.name()});
  UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int small = 4096;  // set before connect, because it determines the window
  ASSERT_EQ(::setsockopt(client.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  const Endpoint& to = forwarder->endpoints()[0];
  ASSERT_EQ(::connect(client.get(), to.get(), to.size), 0);
  const auto gone = [&] {
    pollfd poll{client.get(), POLLOUT, 0};
    return ::poll(&poll, 1, 0) == 1 && (poll.revents & (POLLHUP | POLLERR)) != 0;
  };
  size_t asked = 0;
  for (; asked < 100 && !gone(); ++asked) {
    const std::string query = DnsFramed(DnsQueryFor(std::to_string(asked), 1, 16));
    (void)::send(client.get(), query.data(), query.size(), MSG_NOSIGNAL);
    loop.RunUntil([&] { return upstream.queries.size() > asked || gone(); }, 1000);
  }
  EXPECT_TRUE(gone());
  EXPECT_GT(asked, 16U) << "131 KB are kept for a slow one";
}

TEST_F(DnsForwarderTest, LeavesNothingOnTheLoop) {
  SilentUpstream silent;
  Open({silent.name()});
  const UniqueFd udp = Client(SOCK_DGRAM), tcp = Client(SOCK_STREAM);
  Send(udp, DnsQueryFor("example.com", 1));
  Send(tcp, DnsFramed(DnsQueryFor("example.org", 2)));
  EXPECT_TRUE(loop.RunUntil([&] { return loop.timer_count() >= 5; }));
  forwarder.reset();
  EXPECT_EQ(loop.watch_count(), 0U);
  EXPECT_EQ(loop.timer_count(), 0U);
}

}  // namespace
}  // namespace atl::netpolicy
