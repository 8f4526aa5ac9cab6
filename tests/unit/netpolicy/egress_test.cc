// Prepared policies: which rule decides about a name, and whether unordered ranges mean the same as
// ordered rules.
#include "netpolicy/policy/egress.h"

#include <gtest/gtest.h>

#include <random>

#include "netpolicy/policy/policy_json.h"

namespace atl::netpolicy {
namespace {

constexpr PortKey kWeb{Transport::kTcp, 443};
constexpr PortKey kSsh{Transport::kTcp, 22};
constexpr PortKey kUdpWeb{Transport::kUdp, 443};

std::shared_ptr<const Egress> Make(const std::string& json, const OperatorRules& rules = {},
                                   const std::vector<IpPrefix>& guarded = {}) {
  auto policy = ParsePolicy(json);
  EXPECT_TRUE(policy) << policy.error().message();
  auto egress = Egress::Make(Share(*policy), rules, guarded, nullptr);
  EXPECT_TRUE(egress) << egress.error().message();
  return *egress;
}

TEST(EgressNames, TheFirstRuleThatFitsDecides) {
  const auto egress = Make(R"({"egress":[{"action":"deny","target":"bad.example.com"},
      {"action":"allow","target":"*.example.com"},{"action":"allow","target":"bad.example.com"},
      {"action":"deny","target":"*.deep.example.com"}]})");
  EXPECT_FALSE(egress->JudgeName("bad.example.com").allowed());
  EXPECT_TRUE(egress->DeniesName("bad.example.com"));
  EXPECT_TRUE(egress->JudgeName("good.example.com").any_port);
  EXPECT_TRUE(egress->JudgeName("x.deep.example.com").any_port);
  EXPECT_FALSE(egress->JudgeName("example.com").allowed()) << "a wildcard is for what is below";
  EXPECT_FALSE(egress->JudgeName("notexample.com").allowed());
  EXPECT_FALSE(egress->JudgeName("example.com.evil.org").allowed());
  EXPECT_FALSE(egress->JudgeName("").allowed());
  EXPECT_FALSE(egress->DeniesName("elsewhere.org")) << "denied by default only";
}

TEST(EgressNames, PortsNarrowWhatIsAllowed) {
  const auto egress = Make(R"({"egress":[
      {"action":"allow","target":"git.example","ports":[22],"protocol":"tcp"},
      {"action":"allow","target":"git.example","ports":[9418]},
      {"action":"allow","target":"time.example","protocol":"udp"}]})");
  const NameScope scope = egress->JudgeName("git.example");
  EXPECT_FALSE(scope.any_port);
  EXPECT_TRUE(scope.Allows(kSsh));
  EXPECT_TRUE(scope.Allows({Transport::kUdp, 9418}));
  EXPECT_FALSE(scope.Allows(kWeb));
  EXPECT_FALSE(scope.Allows({Transport::kUdp, 22}));
  EXPECT_TRUE(egress->JudgeName("time.example").Allows({Transport::kUdp, 123}));
  EXPECT_FALSE(egress->JudgeName("time.example").Allows(kWeb));
}

TEST(EgressNames, TheOperatorComesFirst) {
  OperatorRules rules;
  rules.deny_always = *ParsePolicyRules(R"([{"target":"*.evil.example"}])");
  rules.allow_always = *ParsePolicyRules(R"([{"action":"allow","target":"mirror.example"},
      {"action":"allow","target":"x.evil.example"}])");
  const auto egress = Make(R"({"egress":[{"action":"allow","target":"*.evil.example"},
      {"action":"deny","target":"mirror.example"}]})",
                           rules);
  EXPECT_FALSE(egress->JudgeName("x.evil.example").allowed());
  EXPECT_TRUE(egress->JudgeName("mirror.example").allowed());
}

TEST(EgressNames, KnownResolversAreDeniedUnlessNamed) {
  const char* const by_default = R"({"defaultAction":"allow","egress":[
      {"action":"deny","target":"bad.example"}]})";
  EXPECT_FALSE(Make(by_default)->JudgeName("dns.google").allowed());
  EXPECT_EQ(Make(by_default)->JudgeAddress(*ParseIpAddress("8.8.8.8"), kWeb), RangeAction::kDeny);
  EXPECT_EQ(Make(by_default)->JudgeAddress(*ParseIpAddress("8.8.8.8"), kSsh), std::nullopt);
  const auto named =
      Make(R"({"defaultAction":"allow","egress":[{"action":"deny","target":"bad.example"},
      {"action":"allow","target":"dns.google"},{"action":"allow","target":"8.8.8.8"}]})");
  EXPECT_TRUE(named->JudgeName("dns.google").allowed());
  EXPECT_EQ(named->JudgeAddress(*ParseIpAddress("8.8.8.8"), kWeb), RangeAction::kNamed);
  // This policy hides no names, because there is no rule to get around.
  EXPECT_FALSE(Make(R"({"defaultAction":"allow"})")->has_names());
}

TEST(EgressAddresses, NamedOnlyWithinAGuardedPrefix) {
  const std::vector<IpPrefix> guarded{*ParseIpPrefix("10.0.0.0/8"), *ParseIpPrefix("fc00::/7")};
  const auto egress = Make(R"({"egress":[{"action":"deny","target":"10.1.2.3"},
      {"action":"allow","target":"10.1.0.0/16"},{"action":"allow","target":"0.0.0.0/0"},
      {"action":"allow","target":"fd12::/64"},{"action":"allow","target":"::/0"}]})",
                           {}, guarded);
  const auto judge = [&](const char* address) {
    return egress->JudgeAddress(*ParseIpAddress(address), kWeb);
  };
  EXPECT_EQ(judge("10.1.2.3"), RangeAction::kDeny);
  EXPECT_EQ(judge("10.1.2.4"), RangeAction::kNamed);
  EXPECT_EQ(judge("10.2.0.1"), RangeAction::kAllow);  // the guard itself refuses it
  EXPECT_EQ(judge("192.0.2.1"), RangeAction::kAllow);
  EXPECT_EQ(judge("255.255.255.255"), RangeAction::kAllow);
  EXPECT_EQ(judge("fd12::1"), RangeAction::kNamed);
  EXPECT_EQ(judge("ffff::1"), RangeAction::kAllow);
}

// Applies the rules in order, as the oracle for the ranges.
std::optional<Action> FirstMatch(const Policy& policy, const IpAddress& address, PortKey port) {
  for (const PolicyRule& rule : policy.rules) {
    if (rule.parsed.kind != PolicyTarget::Kind::kPrefix) continue;
    if (!rule.parsed.prefix.Contains(address)) continue;
    if (rule.transport != Transport::kAny && rule.transport != port.transport) continue;
    if (!rule.ports.empty() &&
        std::find(rule.ports.begin(), rule.ports.end(), port.port) == rule.ports.end()) {
      continue;
    }
    return rule.action;
  }
  return std::nullopt;
}

PolicyRule RandomRule(std::mt19937& random) {
  PolicyRule rule;
  const bool ipv6 = random() % 2 == 0;
  // Few bits differ, so that prefixes nest and touch, also at the ends of the address space.
  rule.parsed.kind = PolicyTarget::Kind::kPrefix;
  IpAddress address;
  address.ipv6 = ipv6;
  const size_t size = ipv6 ? 16 : 4;
  const uint8_t fill = random() % 2 == 0 ? 0x00 : 0xff;
  std::fill_n(address.bytes.begin(), size, fill);
  address.bytes[size - 1] = static_cast<uint8_t>(random());
  if (random() % 4 == 0) address.bytes[0] = static_cast<uint8_t>(random());
  const std::string text =
      address.ToString() + "/" +
      std::to_string(random() % 6 == 0 ? random() % 9 : size * 8 - random() % 9);
  rule.target = text;
  rule.parsed.prefix = *ParseIpPrefix(text);
  rule.action = random() % 2 == 0 ? Action::kAllow : Action::kDeny;
  if (random() % 3 == 0) rule.ports = {22};
  if (random() % 3 == 0) rule.transport = random() % 2 == 0 ? Transport::kTcp : Transport::kUdp;
  return rule;
}

TEST(EgressAddresses, RangesSayTheSameAsTheRulesInOrder) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same rules each time
  for (int round = 0; round < 300; ++round) {
    Policy policy;
    for (unsigned i = 0; i < 1 + random() % 12; ++i) policy.rules.push_back(RandomRule(random));
    auto egress = Egress::Make(Share(policy), {}, {}, nullptr);
    ASSERT_TRUE(egress);
    const Egress::Ranges& ranges = (*egress)->ranges();
    for (size_t i = 1; i < ranges.size(); ++i) ASSERT_LT(ranges[i - 1].last, ranges[i].first);
    for (int probe = 0; probe < 200; ++probe) {
      const PolicyRule near = RandomRule(random);
      const IpAddress address =
          probe % 2 == 0 ? near.parsed.prefix.first() : near.parsed.prefix.last();
      for (const PortKey& port : {kSsh, kWeb, PortKey{Transport::kUdp, 22}, kUdpWeb}) {
        const auto expected = FirstMatch(policy, address, port);
        const auto said = (*egress)->JudgeAddress(address, port);
        ASSERT_EQ(said.has_value(), expected.has_value()) << address.ToString();
        if (said) {
          ASSERT_EQ(*said == RangeAction::kDeny, *expected == Action::kDeny) << address.ToString();
        }
      }
    }
  }
}

TEST(EgressNames, RefusesMorePortsThanAnAnswerMayOpen) {
  Policy policy;
  for (uint16_t port = 1; port <= Egress::kMaxPortClasses + 1; ++port) {
    PolicyRule rule;
    rule.action = Action::kAllow;
    rule.target = port % 2 == 0 ? "git.example" : "*.example";
    rule.parsed = *ParsePolicyTarget(rule.target);
    rule.ports = {port};
    rule.transport = Transport::kTcp;
    policy.rules.push_back(rule);
  }
  EXPECT_FALSE(Egress::Make(Share(policy), {}, {}, nullptr));
  policy.rules.pop_back();
  policy.rules.push_back(policy.rules.back());  // a duplicate changes nothing
  const auto egress = Egress::Make(Share(policy), {}, {}, nullptr);
  ASSERT_TRUE(egress);
  EXPECT_EQ((*egress)->JudgeName("git.example").ports.size(), Egress::kMaxPortClasses);
}

TEST(EgressAddresses, RefusesWhatWouldComeToTooMuch) {
  Policy policy;
  for (uint16_t port = 1; port <= Egress::kMaxPortClasses + 1; ++port) {
    PolicyRule rule;
    rule.action = Action::kAllow;
    rule.target = "192.0.2.1";
    rule.parsed = *ParsePolicyTarget(rule.target);
    rule.ports = {port};
    rule.transport = Transport::kTcp;
    policy.rules.push_back(rule);
  }
  EXPECT_FALSE(Egress::Make(Share(policy), {}, {}, nullptr));
  policy.rules.pop_back();
  EXPECT_TRUE(Egress::Make(Share(policy), {}, {}, nullptr));
  for (unsigned i = 0; i < 512; ++i) {
    PolicyRule rule;
    rule.action = Action::kAllow;
    rule.target = "198.51." + std::to_string(i / 128) + "." + std::to_string(i % 128 * 2);
    rule.parsed = *ParsePolicyTarget(rule.target);
    policy.rules.push_back(rule);
  }
  auto refused = Egress::Make(Share(policy), {}, {}, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace atl::netpolicy
