// Decisions of the gate, and the limits that depend on them.
#include "tests/unit/netpolicy/dns_fixture.h"

namespace atl::testing {
namespace {

using Verdict = DnsGate::Verdict;

const std::string kHere("\x7f\0\0\x01", 4);  // 127.0.0.1
const std::string kThere("\x7f\0\0\x02", 4);

netpolicy::IpAddress Address(std::array<uint8_t, 4> bytes) {
  netpolicy::IpAddress address;
  std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
  return address;
}

class DnsViewsTest : public DnsForwarderTest {
 protected:
  void OpenWithGate(DnsForwarder::Limits limits = {}) {
    upstream.Serve(loop);
    Open({upstream.name()}, limits, &gate);
  }
  Upstream upstream;
  FakeDnsGate gate;
};

TEST_F(DnsViewsTest, EachSourceHasItsOwn) {
  gate.views[{kHere, "secret.example"}] = {Verdict::kNxDomain, {}, true};
  OpenWithGate();
  const std::string query = DnsQueryFor("Secret.Example", 7);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8183));
  EXPECT_EQ(AskTcp(query), DnsFramed(DnsEmptyAnswerTo(query, 0x8183)));
  EXPECT_TRUE(upstream.queries.empty());
  EXPECT_TRUE(gate.learned.empty());
  EXPECT_EQ(gate.judged.front(), (std::pair<std::string, uint16_t>("secret.example", 1)));
  EXPECT_EQ(Ask(query, "127.0.0.2"), DnsAnswerTo(query, kAddress));
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8183)) << "the cache is not the way around it";
}

TEST_F(DnsViewsTest, OwnAnswersRepeatEdns) {
  gate.otherwise = {Verdict::kNxDomain, {}, true};
  OpenWithGate();
  const std::string query = DnsEdnsQueryFor("secret.example", 7, 1232);
  std::string expected = DnsEmptyAnswerTo(query, 0x8183) + DnsOptBytes();
  expected[11] = 1;
  EXPECT_EQ(Ask(query), expected);
}

TEST_F(DnsViewsTest, AnswersForPeersItself) {
  gate.otherwise = {Verdict::kLocal, {Address({10, 9, 8, 7})}, true};
  OpenWithGate();
  const std::string query = DnsQueryFor("db", 7), quad = DnsQueryFor("db", 7, 28);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, {10, 9, 8, 7}, 5));
  EXPECT_EQ(Ask(quad), DnsEmptyAnswerTo(quad, 0x8180));
  EXPECT_TRUE(upstream.queries.empty());
}

TEST_F(DnsViewsTest, AddressesAreLearnedBeforeTheAnswerLeaves) {
  OpenWithGate();
  const UniqueFd client = Client(SOCK_DGRAM);
  bool too_late = false;
  gate.on_learn = [&] { too_late = Readable(client); };
  const std::string query = DnsQueryFor("Example.com", 7);
  Send(client, query);
  EXPECT_EQ(Answer(client), DnsAnswerTo(query, kAddress));
  EXPECT_FALSE(too_late);
  const std::string bytes(kAddress.begin(), kAddress.end());
  ASSERT_EQ(gate.learned.size(), 1U);
  EXPECT_EQ(gate.learned[0], (FakeDnsGate::Learned{kHere, "example.com", {}, {bytes}, 60}));
  clock.Advance(20);
  Send(client, query);
  EXPECT_EQ(Answer(client), DnsAnswerTo(query, kAddress, 40));
  ASSERT_EQ(gate.learned.size(), 2U) << "from the cache, too";
  EXPECT_EQ(gate.learned[1].ttl, 40U);
  EXPECT_EQ(upstream.queries.size(), 1U);
}

TEST_F(DnsViewsTest, NobodyKeepsAnAddressForLong) {
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsAnswerTo(query, kAddress, 3000)};
  };
  OpenWithGate();
  const std::string query = DnsQueryFor("example.com", 7);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress, 300));
  clock.Advance(2900);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress, 100));
  EXPECT_EQ(upstream.queries.size(), 1U) << "the cache does";
  ASSERT_EQ(gate.learned.size(), 2U);
  EXPECT_EQ(gate.learned[0].ttl, 300U);
  EXPECT_EQ(gate.learned[1].ttl, 100U);
}

TEST_F(DnsViewsTest, AliasesAreTold) {
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsRecordsTo(query, {DnsRecordBytes(U16(0xc00c), 5, 60, DnsName("cdn.example")),
                                 DnsRecordBytes(DnsName("cdn.example"), 1, 60, "abcd")})};
  };
  OpenWithGate();
  Ask(DnsQueryFor("www.example", 7));
  ASSERT_EQ(gate.learned.size(), 1U);
  EXPECT_EQ(gate.learned[0].aliases, std::vector<std::string>{"cdn.example"});
}

TEST_F(DnsViewsTest, WhatMayNotBeLearnedDoesNotLeave) {
  gate.may_learn = false;
  OpenWithGate();
  const std::string query = DnsQueryFor("rebind.example", 7);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8183));
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8183)) << "from the cache";
  EXPECT_EQ(gate.learned.size(), 2U);
}

TEST_F(DnsViewsTest, MalformedAnswersDoNotLeave) {
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsRecordsTo(query, {DnsRecordBytes(DnsName("bank.example"), 1, 60, "evil")})};
  };
  OpenWithGate();
  const std::string query = DnsQueryFor("www.example", 7);
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8182));
  EXPECT_TRUE(gate.learned.empty());
}

TEST_F(DnsViewsTest, OnlySomeTypesLeave) {
  OpenWithGate();
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsEmptyAnswerTo(query, 0x8180)};
  };
  const auto ask = [&](unsigned type) {
    const std::string query = DnsQueryFor("example.com", 7, type);
    const std::string answer = Ask(query);
    EXPECT_EQ(answer.substr(4), DnsEmptyAnswerTo(query, 0).substr(4)) << type;
    return static_cast<uint8_t>(answer[3]) & 0xf;
  };
  for (const unsigned type : {64U, 65U}) EXPECT_EQ(ask(type), 0) << type;
  for (const unsigned type : {10U, 13U, 39U, 41U, 46U, 99U, 249U, 253U, 255U, 65280U}) {
    EXPECT_EQ(ask(type), 4) << type;
  }
  for (const unsigned type : {251U, 252U}) EXPECT_EQ(ask(type), 5) << type;
  EXPECT_TRUE(upstream.queries.empty());
  const auto leave = {1U, 2U, 5U, 6U, 12U, 15U, 16U, 28U, 33U, 35U, 43U, 48U, 257U};
  for (const unsigned type : leave) EXPECT_EQ(ask(type), 0) << type;
  EXPECT_EQ(upstream.queries.size(), leave.size());
}

TEST_F(DnsViewsTest, QuestionsAreCountedByWhatBecameOfThem) {
  gate.views[{kHere, "secret.example"}] = {Verdict::kNxDomain, {}, true};
  gate.views[{kHere, "peer"}] = {Verdict::kLocal, {Address({10, 9, 8, 7})}, true};
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    if (query.find("broken") != std::string::npos) return {DnsEmptyAnswerTo(query, 0x8182)};
    if (query.find("missing") != std::string::npos) return {DnsEmptyAnswerTo(query, 0x8183)};
    return {DnsAnswerTo(query, kAddress)};
  };
  OpenWithGate();
  using Counted = std::vector<std::string>;
  Counted before;
  const auto counted = [&] {
    Counted changed, now;
    for (size_t result = 0; result < netpolicy::kDnsResultNames.size(); ++result) {
      for (size_t type = 0; type < netpolicy::kDnsTypeNames.size(); ++type) {
        now.push_back(std::to_string(forwarder->counts().at(result, type)));
        if (!before.empty() && now.back() == before[now.size() - 1]) continue;
        if (before.empty() && now.back() == "0") continue;
        changed.push_back(std::string(netpolicy::kDnsResultNames[result]) + " " +
                          std::string(netpolicy::kDnsTypeNames[type]));
      }
    }
    before = now;
    return changed;
  };
  const auto ask = [&](const std::string& name, unsigned type = 1) {
    Ask(DnsQueryFor(name, 7, type));
    return counted();
  };
  EXPECT_EQ(counted(), Counted());
  EXPECT_EQ(ask("example.com"), Counted{"answered A"});
  EXPECT_EQ(ask("example.com"), Counted{"answered A"}) << "from the cache";
  EXPECT_EQ(ask("missing.example", 28), Counted{"answered AAAA"}) << "that there is none";
  EXPECT_EQ(ask("example.com", 65), Counted{"answered other"});
  EXPECT_EQ(ask("peer"), Counted{"answered A"});
  EXPECT_EQ(ask("secret.example", 28), Counted{"denied AAAA"});
  EXPECT_EQ(ask("broken.example"), Counted{"failed A"});
  EXPECT_EQ(ask("example.com", 255), Counted{"failed other"});
  gate.may_learn = false;
  EXPECT_EQ(ask("rebind.example"), Counted{"denied A"});
  Ask(DnsQueryFor("example.com", 7) + std::string(netpolicy::kDnsMaxQuery, 'x'));
  EXPECT_EQ(counted(), Counted{"failed other"});
}

TEST_F(DnsViewsTest, PolicedNamesAreShort) {
  gate.otherwise.under_policy = true;
  OpenWithGate();
  const auto name = [](size_t size) {
    std::string text(size, 'x');
    for (size_t at = 60; at < size; at += 60) text[at] = '.';
    return text;
  };
  const auto asked = [&](const std::string& text, const std::string& source = "") {
    const std::string query = DnsQueryFor(text, 7);
    const std::string answer = Ask(query, source);
    if (answer == DnsEmptyAnswerTo(query, 0x8183)) return false;
    EXPECT_EQ(answer, DnsAnswerTo(query, kAddress));
    return true;
  };
  EXPECT_TRUE(asked(name(200)));
  EXPECT_FALSE(asked(name(201)));
  EXPECT_TRUE(asked("1.2.3.4.5.6.7.8.9.10"));
  EXPECT_FALSE(asked("1.2.3.4.5.6.7.8.9.10.11"));
  gate.views[{kThere, name(201)}] = {};
  EXPECT_TRUE(asked(name(201), "127.0.0.2")) << "without a policy";
  EXPECT_EQ(upstream.queries.size(), 3U);
}

TEST_F(DnsViewsTest, PolicedQuestionsThatLeaveAreFew) {
  gate.otherwise.under_policy = true;
  DnsForwarder::Limits limits;
  limits.source.leaving = {1, 2};
  OpenWithGate(limits);
  const auto query = [](int i) { return DnsQueryFor(std::to_string(i) + ".example", 7); };
  EXPECT_EQ(Ask(query(1)), DnsAnswerTo(query(1), kAddress));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask(query(1)), DnsAnswerTo(query(1), kAddress)) << "cached";
  EXPECT_EQ(Ask(query(2)), DnsAnswerTo(query(2), kAddress));
  EXPECT_EQ(Ask(query(3)), DnsEmptyAnswerTo(query(3), 0x8185));
  EXPECT_EQ(Ask(query(3), "127.0.0.2"), DnsAnswerTo(query(3), kAddress)) << "another source";
  clock.Advance(1);
  EXPECT_EQ(Ask(query(4)), DnsAnswerTo(query(4), kAddress));
  EXPECT_EQ(Ask(query(5)), DnsEmptyAnswerTo(query(5), 0x8185));
  gate.otherwise.under_policy = false;
  EXPECT_EQ(Ask(query(5)), DnsAnswerTo(query(5), kAddress)) << "without a policy";
}

TEST_F(DnsViewsTest, QuestionsThatComeTooFastAreDropped) {
  DnsForwarder::Limits limits;
  limits.source.questions = {1, 3};
  OpenWithGate(limits);
  const UniqueFd client = Client(SOCK_DGRAM), other = Client(SOCK_DGRAM, "127.0.0.2");
  std::set<std::string> answered;
  for (unsigned id = 1; id <= 5; ++id) Send(client, DnsQueryFor("example.com", id));
  Send(other, DnsQueryFor("example.com", 6));
  EXPECT_EQ(Answer(other).substr(0, 2), U16(6));
  while (Readable(client)) answered.insert(Read(client.get()).substr(0, 2));
  EXPECT_EQ(answered, (std::set{U16(1), U16(2), U16(3)}));
  clock.Advance(1);
  Send(client, DnsQueryFor("example.com", 7));
  EXPECT_EQ(Answer(client).substr(0, 2), U16(7));
}

TEST_F(DnsViewsTest, ForgetsASourceThatEnded) {
  upstream.answers = [](const std::string&) -> std::vector<std::string> { return {}; };
  DnsForwarder::Limits limits;
  limits.source.queries = 1;
  limits.source.connections = 1;
  limits.source.questions = {1, 2};
  OpenWithGate(limits);
  const UniqueFd udp = Client(SOCK_DGRAM), tcp = Client(SOCK_STREAM);
  const UniqueFd other = Client(SOCK_DGRAM, "127.0.0.2");
  Send(udp, DnsQueryFor("one.example", 1));
  Send(other, DnsQueryFor("one.example", 2));
  EXPECT_TRUE(loop.RunUntil([&] { return gate.judged.size() == 2 && !upstream.queries.empty(); }));
  forwarder->Forget(kHere);
  EXPECT_TRUE(loop.RunUntil([&] { return Readable(tcp); }));
  EXPECT_EQ(Read(tcp.get()), "") << "closed";
  // The other source still waits for the answer, which arrives now.
  const std::string answer = DnsAnswerTo(upstream.queries[0], kAddress);
  const Endpoint to = *ParseEndpoint(upstream.sources[0], 0);
  ::sendto(upstream.udp.get(), answer.data(), answer.size(), 0, to.get(), to.size);
  EXPECT_EQ(Answer(other).substr(0, 2), U16(2));
  EXPECT_FALSE(Readable(udp));
  ASSERT_EQ(gate.learned.size(), 1U);
  EXPECT_EQ(gate.learned[0].source, kThere);
  // The source starts again with fresh limits.
  const std::string query = DnsQueryFor("one.example", 3);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress));
  EXPECT_EQ(AskTcp(query), DnsFramed(DnsAnswerTo(query, kAddress)));
}

TEST_F(DnsViewsTest, WhoAsksTheSameWaitsForOneAnswer) {
  upstream.answers = [](const std::string&) -> std::vector<std::string> { return {}; };
  gate.otherwise.under_policy = true;
  DnsForwarder::Limits limits;
  limits.source.leaving = {1, 1};
  OpenWithGate(limits);
  const UniqueFd one = Client(SOCK_DGRAM), two = Client(SOCK_DGRAM);
  const UniqueFd there = Client(SOCK_DGRAM, "127.0.0.2");
  Send(one, DnsQueryFor("Same.example", 1));
  Send(two, DnsQueryFor("same.Example", 2));
  Send(there, DnsQueryFor("same.example", 3));
  EXPECT_TRUE(loop.RunUntil([&] { return gate.judged.size() == 3 && !upstream.queries.empty(); }));
  const std::string answer = DnsAnswerTo(upstream.queries[0], kAddress);
  const Endpoint to = *ParseEndpoint(upstream.sources[0], 0);
  ::sendto(upstream.udp.get(), answer.data(), answer.size(), 0, to.get(), to.size);
  EXPECT_EQ(Answer(one), DnsAnswerTo(DnsQueryFor("Same.example", 1), kAddress));
  EXPECT_EQ(Answer(two), DnsAnswerTo(DnsQueryFor("same.Example", 2), kAddress));
  EXPECT_EQ(Answer(there), DnsAnswerTo(DnsQueryFor("same.example", 3), kAddress));
  EXPECT_EQ(upstream.queries.size(), 1U);
  EXPECT_EQ(gate.learned.size(), 3U) << "each source learns for itself";
}

}  // namespace
}  // namespace atl::testing
