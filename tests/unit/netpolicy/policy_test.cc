// Policies as clients write them: targets, JSON, and changes at run time.
#include "netpolicy/policy/policy.h"

#include <gtest/gtest.h>

#include "netpolicy/policy/policy_json.h"

namespace atl::netpolicy {
namespace {

TEST(PolicyTarget, TellsNamesWildcardsAndPrefixesApart) {
  auto name = ParsePolicyTarget("API.Example.com.");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->kind, PolicyTarget::Kind::kName);
  EXPECT_EQ(name->name, "api.example.com");
  auto wildcard = ParsePolicyTarget("*.example.com");
  ASSERT_TRUE(wildcard);
  EXPECT_EQ(wildcard->kind, PolicyTarget::Kind::kWildcard);
  EXPECT_EQ(wildcard->name, "example.com");
  auto prefix = ParsePolicyTarget("192.0.2.77/24");
  ASSERT_TRUE(prefix);
  EXPECT_EQ(prefix->kind, PolicyTarget::Kind::kPrefix);
  EXPECT_EQ(prefix->prefix.ToString(), "192.0.2.0/24");
  EXPECT_EQ(ParsePolicyTarget("2001:db8::1")->prefix.ToString(), "2001:db8::1/128");
  // The same packets, so the same rule.
  EXPECT_EQ(ParsePolicyTarget("::ffff:192.0.2.1")->prefix.ToString(), "192.0.2.1/32");
}

TEST(PolicyTarget, RefusesWhatIsNeither) {
  for (const char* text : {"",
                           ".",
                           "*",
                           "*.",
                           "a..b",
                           "a.*.b",
                           "*.*.b",
                           "a b",
                           "http://a.b",
                           "a.b:80",
                           "a.b/24",
                           "192.0.2.1/33",
                           "192.0.2",
                           "0x7f.1",
                           "127.1",
                           "2130706433",
                           "2001:db8::/129",
                           "fe80::1%eth0",
                           "::ffff:192.0.2.0/120",
                           "192.0.2.0/",
                           "192.0.2.0/-1",
                           "192.0.2.0/ 8",
                           "ex\xc3\xa4mple.com"}) {
    EXPECT_FALSE(ParsePolicyTarget(text)) << text;
  }
  EXPECT_FALSE(ParsePolicyTarget(std::string(64, 'a') + ".com"));
  std::string longest = std::string(63, 'a') + "." + std::string(63, 'b') + "." +
                        std::string(63, 'c') + "." + std::string(61, 'd');
  EXPECT_TRUE(ParsePolicyTarget(longest));
  EXPECT_FALSE(ParsePolicyTarget(longest + "d"));
  EXPECT_FALSE(ParsePolicyTarget(std::string_view("a.b\0.c", 6)));
}

TEST(PolicyJson, ReadsWhatItWrites) {
  const std::string text =
      R"({"defaultAction":"allow","egress":[{"action":"deny","target":"Bad.example"},)"
      R"({"action":"allow","ports":[22,443],"protocol":"tcp","target":"192.0.2.0/24"}]})";
  auto policy = ParsePolicy(text);
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(PolicyToJson(*policy), text);
  EXPECT_EQ(policy->rules[1].ports, (std::vector<uint16_t>{22, 443}));
}

TEST(PolicyJson, NothingMeansDeny) {
  for (const char* text : {"{}", "null", R"({"egress":null})", R"({"defaultAction":""})"}) {
    auto policy = ParsePolicy(text);
    ASSERT_TRUE(policy) << text;
    EXPECT_EQ(policy->default_action, Action::kDeny);
    EXPECT_TRUE(policy->rules.empty());
  }
  EXPECT_EQ(ParsePolicyRules(R"([{"target":"a.b"}])")->front().action, Action::kDeny);
}

TEST(PolicyJson, NamesWhatIsWrongAndWhere) {
  const auto says = [](const char* text, const char* what) {
    auto policy = ParsePolicy(text);
    ASSERT_FALSE(policy) << text;
    EXPECT_EQ(policy.error().code(), Code::kInvalidArgument);
    EXPECT_NE(policy.error().message().find(what), std::string::npos) << policy.error().message();
  };
  says("{", "not JSON");
  says("[]", "use an object");
  says(R"({"x":1})", "x: policies have");
  says(R"({"defaultAction":"perhaps"})", "defaultAction: use");
  says(R"({"egress":{}})", "egress: use a list");
  says(R"({"egress":[1]})", "egress[0]: a rule");
  says(R"({"egress":[{"action":"allow"}]})", "egress[0].target: ''");
  says(R"({"egress":[{"action":"allow","target":"a.b","ports":[0]}]})", "1 to 65535");
  says(R"({"egress":[{"action":"allow","target":"a.b","ports":[]}]})", "list of 1 to 16");
  says(R"({"egress":[{"action":"allow","target":"a.b","protocol":"icmp"}]})", "tcp");
  says(R"({"egress":[{"action":"deny","target":"a.b","ports":[1]}]})", "denied as a whole");
  says(R"({"egress":[{"action":"allow","target":"a.b","port":1}]})", "rules have");
  says("\"\xff\"", "not JSON");
  says((std::string(17, '[') + std::string(17, ']')).c_str(), "nested");
  says((std::string(100, '[') + std::string(100, ']')).c_str(), "nested");
}

TEST(PolicyJson, LimitsTheNumberOfRules) {
  std::string rules;
  for (size_t i = 0; i < kMaxPolicyRules; ++i) rules += R"({"target":"a.b"},)";
  rules.pop_back();
  EXPECT_TRUE(ParsePolicy(R"({"egress":[)" + rules + "]}"));
  auto refused = ParsePolicy(R"({"egress":[)" + rules + R"(,{"target":"a.b"}]})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
}

TEST(PolicyChange, NewRulesComeFirstAndTheFirstOfATargetWins) {
  auto policy = ParsePolicy(R"({"defaultAction":"allow","egress":[
      {"action":"deny","target":"a.example"},{"action":"deny","target":"b.example"}]})");
  auto added = ParsePolicyRules(R"([{"action":"allow","target":"B.EXAMPLE"},
      {"action":"deny","target":"b.example"},{"action":"allow","target":"c.example"}])");
  ASSERT_TRUE(policy && added);
  const Policy merged = WithRules(*policy, *added);
  EXPECT_EQ(PolicyToJson(merged),
            R"({"defaultAction":"allow","egress":[{"action":"allow","target":"B.EXAMPLE"},)"
            R"({"action":"allow","target":"c.example"},{"action":"deny","target":"a.example"}]})");
}

TEST(PolicyChange, RemovesByTargetInAnyCase) {
  auto policy = ParsePolicy(R"({"egress":[{"action":"allow","target":"a.example"},
      {"action":"allow","target":"192.0.2.1"}]})");
  ASSERT_TRUE(policy);
  size_t removed = 0;
  EXPECT_EQ(WithoutTargets(*policy, {"A.example", "nobody.example"}, &removed).rules.size(), 1U);
  EXPECT_EQ(removed, 1U);
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(Shortened("short", 5), "short");
  EXPECT_EQ(Shortened("longer", 5), "longe…");
  EXPECT_EQ(Shortened("aä€b", 2), "a…") << "ä has two bytes";
  EXPECT_EQ(Shortened("aä€b", 5), "aä…") << "€ has three";
}

}  // namespace
}  // namespace atl::netpolicy
