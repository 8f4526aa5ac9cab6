// Ceilings: what a policy may allow, and that nothing outside a ceiling gets through, whatever the
// policy.
#include "netpolicy/policy/ceiling.h"

#include <gtest/gtest.h>

#include <random>

#include "netpolicy/policy/egress.h"
#include "netpolicy/policy/policy_json.h"

namespace atl::netpolicy {
namespace {

constexpr PortKey kWeb{Transport::kTcp, 443};

SharedCeiling CeilingFor(const std::vector<std::string>& targets) {
  auto ceiling = Ceiling::Make(targets);
  EXPECT_TRUE(ceiling) << ceiling.error().message();
  return *ceiling;
}

Policy PolicyFor(const std::string& json) {
  auto policy = ParsePolicy(json);
  EXPECT_TRUE(policy) << policy.error().message();
  return *policy;
}

std::shared_ptr<const Egress> Make(const std::string& json, const std::vector<std::string>& ceiling,
                                   const OperatorRules& rules = {},
                                   const std::vector<IpPrefix>& guarded = {}) {
  auto egress = Egress::Make(Share(PolicyFor(json)), rules, guarded, CeilingFor(ceiling));
  EXPECT_TRUE(egress) << egress.error().message();
  return *egress;
}

IpAddress At(const char* text) {
  return *ParseIpAddress(text);
}

bool Reaches(const Egress& egress, const char* address) {
  const auto said = egress.JudgeAddress(At(address), kWeb);
  return said ? *said != RangeAction::kDeny : egress.default_action() == Action::kAllow;
}

TEST(Ceiling, CoversNamesAndPrefixes) {
  const auto ceiling =
      CeilingFor({"Example.org", "*.example.org.", "10.1.0.0/16", "2001:db8::/32"});
  const auto covers = [&](const char* target) {
    return ceiling->Covers(*ParsePolicyTarget(target));
  };
  EXPECT_TRUE(covers("example.org"));
  EXPECT_TRUE(covers("a.b.EXAMPLE.org"));
  EXPECT_TRUE(covers("*.example.org"));
  EXPECT_TRUE(covers("*.deep.example.org"));
  EXPECT_FALSE(covers("*.org"));
  EXPECT_FALSE(covers("notexample.org"));
  EXPECT_FALSE(covers("example.org.evil.test"));
  EXPECT_TRUE(covers("10.1.2.3"));
  EXPECT_TRUE(covers("10.1.128.0/17"));
  EXPECT_FALSE(covers("10.0.0.0/8"));
  EXPECT_FALSE(covers("0.0.0.0/0"));
  EXPECT_TRUE(covers("2001:db8:1::/48"));
  EXPECT_FALSE(covers("::/0"));
}

TEST(Ceiling, ARuleBeyondItIsRefusedByName) {
  const auto ceiling = CeilingFor({"*.example.org"});
  EXPECT_TRUE(ceiling->Check(PolicyFor(R"({"defaultAction":"allow","egress":[
      {"action":"deny","target":"evil.test"},{"action":"allow","target":"a.example.org"}]})")));
  const Status refused =
      ceiling->Check(PolicyFor(R"({"egress":[{"action":"allow","target":"evil.test"}]})"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kPermissionDenied);
  EXPECT_NE(refused.error().message().find("evil.test"), std::string::npos);
  EXPECT_NE(refused.error().message().find("*.example.org"), std::string::npos);
}

TEST(Ceiling, TargetsThatCannotBeReadAreRefused) {
  EXPECT_FALSE(Ceiling::Make({"example.org", "not a name"}));
  EXPECT_FALSE(Ceiling::Make(std::vector<std::string>(kMaxCeilingTargets + 1, "a.test")));
}

TEST(CeilingEgress, ADefaultOfAllowAllowsTheCeilingAlone) {
  const auto egress = Make(R"({"defaultAction":"allow"})", {"*.example.org", "192.0.2.0/24"}, {},
                           {*ParseIpPrefix("10.0.0.0/8")});
  EXPECT_EQ(egress->default_action(), Action::kDeny);
  EXPECT_TRUE(egress->has_names());
  EXPECT_TRUE(egress->JudgeName("a.example.org").any_port);
  EXPECT_FALSE(egress->JudgeName("example.org").allowed());
  EXPECT_FALSE(egress->JudgeName("evil.test").allowed());
  EXPECT_TRUE(Reaches(*egress, "192.0.2.7"));
  EXPECT_FALSE(Reaches(*egress, "198.51.100.1"));
  EXPECT_FALSE(Reaches(*egress, "2001:db8::1"));
}

TEST(CeilingEgress, RulesAreCutAndKeepTheirOrder) {
  const auto egress = Make(R"({"egress":[
      {"action":"allow","target":"evil.test"},{"action":"allow","target":"*.org"},
      {"action":"deny","target":"192.0.2.7"},{"action":"allow","target":"192.0.0.0/8"}]})",
                           {"*.example.org", "192.0.2.0/24"});
  EXPECT_FALSE(egress->JudgeName("evil.test").allowed());
  EXPECT_TRUE(egress->JudgeName("a.example.org").any_port);
  EXPECT_FALSE(egress->JudgeName("other.org").allowed());
  EXPECT_TRUE(Reaches(*egress, "192.0.2.8"));
  EXPECT_FALSE(Reaches(*egress, "192.0.2.7"));
  EXPECT_FALSE(Reaches(*egress, "192.0.3.1"));
}

// A part of a wide rule may lie within a guarded prefix. Only a rule that names such a part opens
// it, so cutting must not turn the one into the other.
TEST(CeilingEgress, CuttingOpensNoGuardedAddress) {
  const std::vector<IpPrefix> guarded = {*ParseIpPrefix("10.0.0.0/8")};
  const auto wide =
      Make(R"({"egress":[{"action":"allow","target":"0.0.0.0/0"}]})", {"10.1.0.0/16"}, {}, guarded);
  EXPECT_EQ(wide->JudgeAddress(At("10.1.2.3"), kWeb), RangeAction::kAllow);
  EXPECT_FALSE(wide->NamesAddress(At("10.1.2.3")));
  const auto named = Make(R"({"egress":[{"action":"allow","target":"10.1.2.0/24"}]})",
                          {"10.1.0.0/16"}, {}, guarded);
  EXPECT_EQ(named->JudgeAddress(At("10.1.2.3"), kWeb), RangeAction::kNamed);
}

TEST(CeilingEgress, TheOperatorsRulesAreNotCut) {
  OperatorRules rules;
  rules.allow_always = *ParsePolicyRules(
      R"([{"action":"allow","target":"mirror.test"},{"action":"allow","target":"203.0.113.9"}])");
  const auto egress = Make("{}", {}, rules);
  EXPECT_TRUE(egress->JudgeName("mirror.test").any_port);
  EXPECT_TRUE(Reaches(*egress, "203.0.113.9"));
  EXPECT_FALSE(egress->JudgeName("a.test").allowed());
}

// Random policies under random ceilings: what gets through is what both allow.
TEST(CeilingEgress, IsTheIntersection) {
  std::mt19937 random(1);
  const auto pick = [&](size_t count) { return static_cast<size_t>(random() % count); };
  const std::vector<std::string> targets = {
      "a.test",       "b.a.test",   "*.a.test",    "*.b.a.test",    "c.test",
      "*.test",       "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24",   "10.1.2.3",
      "192.0.2.0/24", "0.0.0.0/0",  "::/0",        "2001:db8::/32", "2001:db8::1"};
  const char* const names[] = {"a.test", "b.a.test", "x.b.a.test", "c.test", "d.test", "evil.org"};
  const char* const addresses[] = {"10.1.2.3",  "10.1.2.4", "10.1.9.9",    "10.9.9.9",
                                   "192.0.2.1", "8.8.8.8",  "2001:db8::1", "2001:db9::1"};
  size_t reached = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> ceiling_targets;
    for (size_t i = pick(4); i > 0; --i) ceiling_targets.push_back(targets[pick(targets.size())]);
    std::string json =
        std::string(R"({"defaultAction":")") + (pick(2) ? "allow" : "deny") + R"(","egress":[)";
    const size_t count = pick(5);
    for (size_t i = 0; i < count; ++i) {
      json += std::string(i ? "," : "") + R"({"action":")" + (pick(2) ? "allow" : "deny") +
              R"(","target":")" + targets[pick(targets.size())] + R"("})";
    }
    json += "]}";
    const auto free = Egress::Make(Share(PolicyFor(json)), {}, {}, nullptr);
    ASSERT_TRUE(free);
    const auto bound = Make(json, ceiling_targets);
    const auto ceiling = CeilingFor(ceiling_targets);
    for (const char* name : names) {
      const bool expected = (*free)->JudgeName(name).allowed() && ceiling->CoversName(name);
      ASSERT_EQ(bound->JudgeName(name).allowed(), expected) << json << " " << name;
      reached += expected ? 1 : 0;
    }
    for (const char* address : addresses) {
      const bool within = ceiling->Covers(*ParsePolicyTarget(address));
      const bool expected = Reaches(**free, address) && within;
      ASSERT_EQ(Reaches(*bound, address), expected) << json << " " << address;
      reached += expected ? 1 : 0;
    }
  }
  EXPECT_GT(reached, 1000U);
}

}  // namespace
}  // namespace atl::netpolicy
