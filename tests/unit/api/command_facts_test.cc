#include "runtime/api/gate/command_facts.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/api/gate/audit_entry.h"

namespace atl::api {
namespace {

using audit::Level;

std::string FactsOf(const std::string& body, Level level, bool whole = true) {
  std::string text;
  const auto hmac = [](std::string_view of) { return "<" + std::to_string(of.size()) + ">"; };
  for (const audit::Fact& fact : CommandFacts(body, whole, level, hmac)) {
    text.append(text.empty() ? "" : " ").append(fact.name).append("=");
    const auto* number = std::get_if<int64_t>(&fact.value);
    text.append(number != nullptr ? std::to_string(*number) : std::get<std::string>(fact.value));
  }
  return text;
}

TEST(CommandFacts, TellTheProgramAndNotItsWords) {
  EXPECT_EQ(FactsOf(R"({"command": "ls -l /secret", "cwd": "/w", "uid": 7})", Level::kArgv),
            "argv0=ls argc=3 argv_hmac=<13> cwd=/w uid=7");
  EXPECT_EQ(FactsOf(R"({"command": "A=b /usr/bin/python3 x"})", Level::kArgv),
            "argv0=python3 argc=3 argv_hmac=<22>");
  EXPECT_EQ(FactsOf(R"({"argv": ["echo", "a b"]})", Level::kArgv),
            "argv0=echo argc=2 argv_hmac=<8>");
  EXPECT_EQ(FactsOf(R"({"command": "'$(x)'"})", Level::kArgv), "argv0=? argc=1 argv_hmac=<6>");
  EXPECT_EQ(FactsOf(R"({"code": "x = 1"})", Level::kArgv), "code_bytes=5 code_hmac=<5>");
  EXPECT_EQ(FactsOf(R"({"command": "ls", "env": {"A": "b"}})", Level::kFull),
            "argv0=ls argc=1 argv_hmac=<2> command=ls");
  EXPECT_EQ(FactsOf(R"({"command": "ls"})", Level::kMeta), "");
  EXPECT_EQ(FactsOf("{\"comm", Level::kFull, false), "body_hmac=<6> body_cut_at=6");
  for (const char* odd :
       {"", "null", "[]", "{}", "{\"command\": 7}", "{\"argv\": [7]}", "nonsense"}) {
    const std::string facts = FactsOf(odd, Level::kFull);
    EXPECT_EQ(facts.find("argv0=7"), std::string::npos) << odd;
  }
}

TEST(CommandFacts, HidesWhatLooksLikeASecret) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"echo hello world", "echo hello world"},
      {"API_KEY=abc x", "API_KEY=*** x"},
      {"env DB_PASSWORD='a b' x", "env DB_PASSWORD=*** x"},
      {"login --password hunter2 -v", "login --password *** -v"},
      {"login --token=abc", "login --token=***"},
      {"curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: Bearer ***'"},
      {"https://me:pw@host/x", "https://***@host/x"},
      {"https://host/?X-Amz-Security-Token=abc&b=1", "https://host/?X-Amz-Security-Token=***&b=1"},
      {"KEY=", "KEY="},
      {"a=b=c", "a=b=c"},
  };
  for (const auto& [text, shown] : cases) EXPECT_EQ(WithoutSecrets(text), shown);
}

TEST(AuditEntry, OnlyWhatChangesSomethingNeedsTheLog) {
  EXPECT_TRUE(NeedsAudit("POST", "sandbox.create"));
  EXPECT_TRUE(NeedsAudit("POST", "sandbox.resume"));
  EXPECT_TRUE(NeedsAudit("GET", "exec.pty"));
  EXPECT_TRUE(NeedsAudit("PUT", "port.open"));
  EXPECT_FALSE(NeedsAudit("POST", "sandbox.pause"));
  EXPECT_FALSE(NeedsAudit("DELETE", "sandbox.delete"));
  EXPECT_FALSE(NeedsAudit("GET", "endpoint.issue"));
  EXPECT_FALSE(NeedsAudit("POST", ""));
}

}  // namespace
}  // namespace atl::api
