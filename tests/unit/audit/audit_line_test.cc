#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/tenants/audit/audit_line.h"
#include "runtime/tenants/audit/level.h"

namespace atl::audit {
namespace {

Link FirstLink() {
  return {.seq = 1041, .boot = "9f00aa", .unix_micros = 1'795'842'000'123'456, .prev = kNoHash};
}

Event FullEvent(const std::string& text) {
  return {.action = "exec.command",
          .outcome = "success",
          .status = 200,
          .tenant = text,
          .actor = {"key", text, text, text},
          .from = {text, text, text},
          .target = {"sandbox", text, text, text},
          .request = text,
          .trace = text,
          .what = {{"argv0", text}, {"argc", 3}, {"cwd", text}, {"uid", 0}},
          .took_us = 1834};
}

std::string LineOf(const Event& event) {
  LineFormatter formatter;
  return std::string(formatter.Format(event, FirstLink()));
}

TEST(AuditLine, HasItsMembersInOrderAndIsHashed) {
  const std::string line = LineOf({.action = "sandbox.create",
                                   .outcome = "success",
                                   .status = 202,
                                   .tenant = "red",
                                   .actor = {.kind = "key", .id = "k_1", .role = "developer"},
                                   .from = {"10.1.2.3", "sdk/1", "tls"},
                                   .target = {"sandbox", "7ff6", "web", "busybox"},
                                   .request = "e485",
                                   .trace = "4bf9",
                                   .what = {{"argc", 3}, {"cwd", "/w"}},
                                   .took_us = 18});
  const std::string body =
      R"({"v":1,"seq":1041,"boot":"9f00aa","time":"2026-11-28T05:00:00.123456Z",)"
      R"("action":"sandbox.create","outcome":"success","status":202,"tenant":"red",)"
      R"("actor":{"kind":"key","id":"k_1","role":"developer"},)"
      R"("from":{"ip":"10.1.2.3","agent":"sdk/1","via":"tls"},)"
      R"("target":{"kind":"sandbox","id":"7ff6","name":"web","image":"busybox"},)"
      R"("request":"e485","trace":"4bf9","what":{"argc":3,"cwd":"/w"},"took_us":18,"prev":")" +
      std::string(kNoHash) + "\"";
  const std::string hash = HexEncode(Sha256(std::string(kNoHash) + body));
  EXPECT_EQ(line, body + ",\"hash\":\"" + hash + "\"}\n");
}

TEST(AuditLine, LeavesOutWhatIsNotThere) {
  const std::string line = LineOf({.action = "daemon.start", .outcome = "success"});
  EXPECT_NE(line.find(R"("outcome":"success","actor":{"kind":"daemon"},"prev")"), std::string::npos)
      << line;
}

TEST(AuditLine, StaysOneBoundedLineOfJsonWhateverTheTexts) {
  std::string every;
  for (int c = 0; c < 256; ++c) every.push_back(static_cast<char>(c));
  const std::string texts[] = {"a",
                               std::string(10'000, 'x'),
                               std::string(10'000, '"'),
                               std::string(10'000, '\0'),
                               every,
                               std::string(300, '\xff'),
                               "\u202e\u2066\u0085\ufeff",
                               std::string(5000, '\n'),
                               [] {
                                 std::string wide;
                                 for (int i = 0; i < 3000; ++i) wide += "😀é";
                                 return wide;
                               }(),
                               R"(","hash":"0000"})",
                               std::string(31, 'a') + "é",
                               std::string(95, 'a') + "\"\""};
  for (const std::string& text : texts) {
    const std::string line = LineOf(FullEvent(text));
    ASSERT_LE(line.size(), kMaxLine);
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    for (const char c : line.substr(0, line.size() - 1)) ASSERT_TRUE(c < 0 || c >= ' ');
    ASSERT_EQ(line.find("\u202e"), std::string::npos);
    const auto json = nlohmann::json::parse(line);  // throws if it is not UTF-8, too
    EXPECT_EQ(json["what"]["argc"], 3);
    EXPECT_EQ(json["took_us"], 1834);
    const auto parsed = ParseLine(std::string_view(line).substr(0, line.size() - 1));
    ASSERT_TRUE(parsed) << line;
    EXPECT_TRUE(HashMatches(*parsed));
    EXPECT_EQ(parsed->seq, 1041u);
    EXPECT_EQ(parsed->action, "exec.command");
    EXPECT_EQ(parsed->boot, "9f00aa");
    EXPECT_EQ(parsed->prev, kNoHash);
  }
}

TEST(AuditLine, CutsATextAtAWholeCharacterAndSaysSo) {
  const auto json = nlohmann::json::parse(LineOf(FullEvent(std::string(95, 'a') + "éé")));
  EXPECT_EQ(json["tenant"], std::string(93, 'a') + "…");
  const auto whole = nlohmann::json::parse(LineOf(FullEvent(std::string(96, 'a'))));
  EXPECT_EQ(whole["tenant"], std::string(96, 'a'));
}

TEST(AuditLine, LeavesOutTheFactsThatDoNotFit) {
  Event event = FullEvent(std::string(1000, 'x'));
  event.what.clear();
  for (int i = 0; i < 20; ++i) event.what.push_back({"fact", std::string(700, 'y')});
  event.what.push_back({"last", 1});
  const std::string line = LineOf(event);
  ASSERT_LE(line.size(), kMaxLine);
  EXPECT_FALSE(nlohmann::json::parse(line)["what"].contains("last"));
}

TEST(AuditLine, RefusesOtherLines) {
  std::string line = LineOf(FullEvent("a"));
  line.pop_back();
  ASSERT_TRUE(ParseLine(line));
  for (size_t size = 0; size < line.size(); ++size) EXPECT_FALSE(ParseLine(line.substr(0, size)));
  EXPECT_FALSE(ParseLine(" " + line));
  EXPECT_FALSE(ParseLine(line + " "));
  EXPECT_FALSE(ParseLine(std::string(10'000, 'x')));
  // Any changed byte is noticed.
  for (size_t at = 0; at < line.size(); ++at) {
    std::string changed = line;
    changed[at] = changed[at] == '1' ? '2' : '1';
    const auto parsed = ParseLine(changed);
    EXPECT_FALSE(parsed && HashMatches(*parsed)) << at;
  }
}

TEST(AuditLevels, TheLastRuleThatMatchesCounts) {
  const auto levels =
      Levels::Parse({"*=none", "exec.*=full", "exec.code=meta", "audit.*=none", "file.read=argv"});
  ASSERT_TRUE(levels);
  EXPECT_EQ(levels->For("sandbox.create"), Level::kNone);
  EXPECT_EQ(levels->For("exec.command"), Level::kFull);
  EXPECT_EQ(levels->For("exec.code"), Level::kMeta);
  EXPECT_EQ(levels->For("file.read"), Level::kArgv);
  EXPECT_EQ(levels->For("audit.gap"), Level::kMeta);
  EXPECT_EQ(levels->For("login.failed"), Level::kMeta);
  EXPECT_EQ(Levels().For("exec.pty"), Level::kArgv);
  EXPECT_EQ(Levels().For("file.read"), Level::kMeta);
  for (const char* wrong : {"", "=", "exec", "exec.*", "exec.*=all", "EXEC=none", "a b=none"}) {
    EXPECT_FALSE(Levels::Parse({wrong})) << wrong;
  }
}

}  // namespace
}  // namespace atl::audit
