#include "runtime/api/gate/command_facts.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/api/gate/audit_entry.h"
#include "runtime/api/gate/credential.h"

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

// Returns the facts of a body that is whole, without the HMAC of the body, which must be there.
std::string FactsButBody(const std::string& body, Level level) {
  std::string facts = FactsOf(body, level);
  const std::string hmac = "body_hmac=<" + std::to_string(body.size()) + ">";
  const size_t at = facts.find(hmac);
  if (at == std::string::npos) return "no HMAC of the body: " + facts;
  facts.erase(at == 0 ? 0 : at - 1, hmac.size() + 1);
  return facts;
}

TEST(CommandFacts, TellTheProgramAndNotItsWords) {
  EXPECT_EQ(FactsButBody(R"({"command": "ls -l /secret", "cwd": "/w", "uid": 7})", Level::kArgv),
            "argv0=ls argc=3 argv_hmac=<13> cwd=/w uid=7");
  EXPECT_EQ(FactsButBody(R"({"command": "A=b /usr/bin/python3 x"})", Level::kArgv),
            "argv0=python3 argc=3 argv_hmac=<22>");
  EXPECT_EQ(FactsButBody(R"({"argv": ["echo", "a b"]})", Level::kArgv),
            "argv0=echo argc=2 argv_hmac=<8>");
  EXPECT_EQ(FactsButBody(R"({"command": "'$(x)'"})", Level::kArgv), "argv0=? argc=1 argv_hmac=<6>");
  EXPECT_EQ(FactsButBody(R"({"code": "x = 1"})", Level::kArgv), "code_bytes=5 code_hmac=<5>");
  EXPECT_EQ(FactsButBody(R"({"command": "ls", "env": {"A": "b", "a": "c"}})", Level::kFull),
            "argv0=ls argc=1 argv_hmac=<2> command=ls");
  EXPECT_EQ(FactsOf(R"({"command": "ls"})", Level::kMeta), "");
  EXPECT_EQ(FactsOf("", Level::kFull), "");
  EXPECT_EQ(FactsOf("{\"comm", Level::kFull, false), "body_hmac=<6> body_cut_at=6");
  EXPECT_EQ(FactsButBody("{\"command\": 7}", Level::kFull), "");
  EXPECT_EQ(FactsButBody("{}", Level::kFull), "");
  EXPECT_EQ(FactsButBody("{\"argv\": [7]}", Level::kArgv), "argv0=? argc=1 argv_hmac=<0>");
}

// execd compares names without case, takes the last one, and ignores what follows the object.
TEST(CommandFacts, TellTheCommandThatRuns) {
  const std::string evil = "argv0=evil argc=1 argv_hmac=<4> ";
  const std::pair<std::string, std::string> cases[] = {
      {R"({"command":"echo nice","COMMAND":"evil"})", evil + "command=evil ambiguous=1"},
      {R"({"COMMAND":"echo nice","command":"evil"})", evil + "command=evil ambiguous=1"},
      {R"({"command":"echo nice","command":"evil"})", evil + "command=evil ambiguous=1"},
      {R"({"command":"echo nice","\u0063ommanD":"evil"})", evil + "command=evil ambiguous=1"},
      {R"({"argv":["ls"],"Argv":["evil"]})", evil + "command=evil ambiguous=1"},
      {R"({"argv":["ls", "x"],"command":null,"ARGV":["evil"]})", evil + "command=evil ambiguous=1"},
      {R"({"COMMAND":"evil"})", evil + "command=evil"},
      {R"({"Command":"evil","CWD":"/w","UID":7})", evil + "cwd=/w uid=7 command=evil"},
      {R"({"command":"evil","envs":{"command":"echo nice"}})", evil + "command=evil"},
      {R"({"envs":{"command":["x"]},"command":"evil"})", evil + "command=evil"},
      {R"({"command":"evil","x":1,"X":2})", evil + "command=evil ambiguous=1"},
      {R"({"command":"evil"}{"command":"echo nice"})", evil + "command=evil ambiguous=1"},
      {R"({"command":"evil"} nonsense)", evil + "command=evil ambiguous=1"},
      {R"({"command":"evil"}})", evil + "command=evil ambiguous=1"},
      {std::string("{\"command\":\"evil\"}\0{}", 21), evil + "command=evil ambiguous=1"},
      {"{\"command\":\"evil\"} \r\n\t", evil + "command=evil"},
      {R"({"CODE":"1","code":"evil"})", "code_bytes=4 code_hmac=<4> code=evil ambiguous=1"},
      // Half a body tells nothing of a command.
      {R"({"command":"echo nice")", "ambiguous=1"},
      {R"(["command","evil"])", "ambiguous=1"},
      {"null", "ambiguous=1"},
      {"nonsense", "ambiguous=1"},
      {"{\"command\":\"echo nice\",\"envs\":{\"A\":\"\\ud800\"}}", "ambiguous=1"},
  };
  for (const auto& [body, told] : cases) EXPECT_EQ(FactsButBody(body, Level::kFull), told) << body;
  const std::string deep = "{\"command\":\"evil\"}" + std::string(kMaxAuditedBody - 18, '[');
  EXPECT_EQ(FactsButBody(deep, Level::kFull), evil + "command=evil ambiguous=1");
}

TEST(CommandFacts, HideKeysAndTokens) {
  const std::string secret = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN_-9";
  ASSERT_EQ(secret.size(), 43U);
  const std::string key = "atl_abcdefg2_" + secret;
  const std::string token = "e1.k_abcdefg2.01234567-89ab-4cde-8f01-23456789abcd." + secret;
  EXPECT_EQ(WithoutSecrets("curl " + key), "curl ***");
  EXPECT_EQ(WithoutSecrets("/w/" + key + "/x atl_atl_" + key), "/w/***/x atl_atl_***");
  EXPECT_EQ(WithoutSecrets("a?t=" + token + "&b"), "a?t=***&b");
  EXPECT_EQ(WithoutSecrets("e1.e1." + token), "***");
  EXPECT_EQ(WithoutTokens("--password x " + key), "--password x ***");
  const std::string plain[] = {
      "atl_",
      "e1.",
      "e1.x",
      "atl_abcdefg2_short",
      "atl_abcdefg1_" + secret,  // no 1 in the id of a key
      "e1.k.not-a-sandbox." + secret,
      key.substr(0, key.size() - 1),
      token.substr(0, token.size() - 1),
  };
  for (const std::string& text : plain) EXPECT_EQ(WithoutSecrets(text), text);
  EXPECT_EQ(
      FactsButBody("{\"argv\": [\"" + key + "\"], \"cwd\": \"/" + token + "\"}", Level::kFull),
      "argv0=*** argc=1 argv_hmac=<56> cwd=/*** command=***");
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
