#include "runtime/api/routes/diagnostics.h"

#include <gtest/gtest.h>

#include "cgroup/limits_text.h"
#include "runtime/api/gate/secret_name.h"

namespace atl::api {
namespace {

TEST(Since, Vectors) {
  const std::pair<const char*, int64_t> cases[] = {
      {"90s", 90'000},
      {"10m", 600'000},
      {"2h", 7'200'000},
      {"1d", 86'400'000},
      {"", 600'000},
      {"5", 600'000},
      {"m", 600'000},
      {"-5m", 600'000},
      {"1.5h", 600'000},
      {"5m ", 600'000},
      {"5 m", 600'000},
      {"5M", 600'000},
      {"10ms", 600'000},
      {"+5m", 600'000},
      {"0s", 1},
      {"99999999999999999999d", 600'000},
      {"9223372036854775807d", int64_t{100} * 365 * 86'400'000},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(ParseSince(text), wanted) << text;
}

TEST(Query, DefaultsAndLimits) {
  const auto plain = ParseDiagnosticsQuery("", 50);
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->scope);
  EXPECT_FALSE(plain->tail);
  EXPECT_EQ(plain->limit, 50);
  EXPECT_FALSE(plain->follow);
  const auto all =
      ParseDiagnosticsQuery("scope=&tail=10000&event_limit=500&follow=true&since=1s", 5);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->scope, "");
  EXPECT_EQ(all->tail, 10000);
  EXPECT_EQ(all->limit, 500);
  EXPECT_TRUE(all->follow);
  EXPECT_EQ(all->since_ms, 1000);
  for (const char* bad : {"tail=0", "tail=10001", "tail=x", "tail=", "limit=0", "limit=501"}) {
    const auto refused = ParseDiagnosticsQuery(bad, 5);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().status, 422) << bad;
  }
}

TEST(Secrets, ByName) {
  for (const char* name : {"TOKEN", "my_token", "AWS_SECRET_ACCESS_KEY", "dbPassword", "monkey"}) {
    EXPECT_TRUE(IsSecretName(name)) << name;
  }
  for (const char* name : {"", "PATH", "TOK_EN", "PASS"}) EXPECT_FALSE(IsSecretName(name)) << name;
}

class TextTest : public testing::Test {
 protected:
  TextTest() {
    sandbox.id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    sandbox.spec.image = "busybox:latest";
    sandbox.spec.entrypoint = {"sh"};
    sandbox.state = sandbox::State::kRunning;
    sandbox.reason = "CONTAINER_RUNNING";
    sandbox.access_token = "never-shown";
    sandbox.created_at_ms = 1'700'000'000'000;
    sandbox.transition_at_ms = sandbox.created_at_ms + 5;
    sandbox.spec.env = {{"A_TOKEN", "hush"}, {"PLAIN", "line\nInjected: yes"}};
  }
  DiagnosticsSubject Subject() const { return {sandbox, history, {"10.0.0.2"}}; }

  sandbox::Sandbox sandbox;
  std::vector<sandbox::HistoryEvent> history = {
      {1'700'000'000'005, "Running", "CONTAINER_RUNNING", "Sandbox is running"}};
};

TEST_F(TextTest, NoSecretAndNoForeignLine) {
  sandbox.message = "it said\r\nEvent: forged";
  history.push_back({1'700'000'001'000, "Failed", "X", "words\n2026-01-01T00:00:00Z forged"});
  for (const std::string& text :
       {InspectText(Subject()), LegacyEventsText(Subject(), 50), SummaryText(Subject(), 20, "logs"),
        *EventsText(Subject(), "all")}) {
    EXPECT_EQ(text.find("never-shown"), std::string::npos) << text;
    EXPECT_EQ(text.find("hush"), std::string::npos) << text;
    EXPECT_EQ(text.find("\nInjected"), std::string::npos) << text;
    EXPECT_EQ(text.find("\nEvent: forged"), std::string::npos) << text;
    EXPECT_EQ(text.find("\n2026-01-01"), std::string::npos) << text;
    EXPECT_EQ(text.find('\r'), std::string::npos) << text;
  }
}

TEST_F(TextTest, Events) {
  EXPECT_FALSE(EventsText(Subject(), ""));
  EXPECT_FALSE(EventsText(Subject(), "container"));
  EXPECT_EQ(*EventsText(Subject(), "runtime"), "");
  EXPECT_NE(LegacyEventsText(Subject(), 50).find("(no notable events)"), std::string::npos);
  for (int i = 0; i < 10; ++i) {
    history.push_back({1'700'000'001'000 + i, "Renewed", "r" + std::to_string(i), ""});
  }
  const std::string text = LegacyEventsText(Subject(), 3);
  EXPECT_EQ(text.find("r6"), std::string::npos);
  EXPECT_NE(text.find("r7"), std::string::npos);
  EXPECT_NE(text.find("r9"), std::string::npos);
  // Without a history, the record still gives an event.
  history.clear();
  EXPECT_NE(EventsText(Subject(), "all")->find("CONTAINER_RUNNING"), std::string::npos);
}

TEST_F(TextTest, EveryLimit) {
  sandbox.spec.limits = cgroup::DistinctLimits(7001);
  const std::string text = InspectText(Subject());
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    const std::string line = "  " + std::string(field.name) + "=" +
                             cgroup::LimitText(field, sandbox.spec.limits.*field.value) + "\n";
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace atl::api
