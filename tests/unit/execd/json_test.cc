#include "execd/http/json.h"

#include <gtest/gtest.h>

#include "execd/run/command_request.h"

namespace atl::execd {
namespace {

TEST(Json, ReadsAllTypes) {
  const auto document =
      JsonDocument::Parse(R"({"s":"a\n\u00e9\ud83d\ude00","i":-12,"n":1.5e3,"t":true,"z":null,)"
                          R"("a":[1,[],{"x":2}],"o":{}} and the rest is ignored)");
  ASSERT_TRUE(document);
  const JsonValue root = document->root();
  EXPECT_EQ(root.Find("s").text(), "a\n\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(root.Find("i").integer(), -12);
  EXPECT_TRUE(root.Find("n").is(JsonType::kNumber));
  EXPECT_TRUE(root.Find("t").boolean());
  EXPECT_TRUE(root.Find("z").is(JsonType::kNull));
  EXPECT_FALSE(root.Find("nope").present());
  JsonValue element = root.Find("a").first();
  EXPECT_EQ(element.integer(), 1);
  element = element.next();
  EXPECT_FALSE(element.first().present());
  element = element.next();
  EXPECT_EQ(element.Find("x").integer(), 2);
  EXPECT_FALSE(element.next().present());
  EXPECT_FALSE(root.Find("o").first().present());
}

TEST(Json, NamesWithoutCaseAndTheLastWins) {
  const auto document = JsonDocument::Parse(R"({"Name":1,"NAME":2,"other":3})");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root().Find("name").integer(), 2);
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text :
       {"",      " ",     "{",   "{\"a\"",    "{\"a\":}",  "{\"a\":1,}",    "[1,]", "[,1]",
        "[1 2]", "{1:2}", "\"a", "\"\\x\"",   "\"\\u12\"", "\"\n\"",        "tru",  "01",
        "1.",    "-",     "1e",  "{\"a\" 1}", "]",         "\"\\ud800\\u\""}) {
    EXPECT_FALSE(JsonDocument::Parse(text)) << text;
  }
}

TEST(Json, DepthAndSizeAreBounded) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(JsonDocument::Parse(nested(JsonDocument::kMaxDepth)));
  EXPECT_FALSE(JsonDocument::Parse(nested(JsonDocument::kMaxDepth + 1)));
  std::string wide = "[1";
  for (size_t i = 0; i < JsonDocument::kMaxNodes; ++i) wide += ",1";
  EXPECT_FALSE(JsonDocument::Parse(wide + "]"));
}

TEST(Json, LoneSurrogatesAreReplaced) {
  const auto document = JsonDocument::Parse(R"("a\ud800b\udc00c\ud800\u0041")");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root().text(),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD"
            "c\xEF\xBF\xBD"
            "A");
}

TEST(Json, WritesStringsAsGoDoes) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    AppendJsonString(&out, text);
    return out;
  };
  EXPECT_EQ(quoted("a\"\\\n\r\t\x01"), R"("a\"\\\n\r\t\u0001")");
  EXPECT_EQ(quoted("<a>&\xE2\x80\xA8"), R"("\u003ca\u003e\u0026\u2028")");
  EXPECT_EQ(quoted("\xFF\xC3(\xED\xA0\x80"), R"("\ufffd\ufffd(\ufffd\ufffd\ufffd")");
  EXPECT_EQ(quoted("\xF0\x9F\x98\x80\x7F"), "\"\xF0\x9F\x98\x80\x7F\"");
}

TEST(Json, WritesNumbersAndTimes) {
  std::string out;
  AppendJsonDecimal(&out, 12.5);
  out += ' ';
  AppendJsonDecimal(&out, -0.0625);
  out += ' ';
  AppendJsonTime(&out, 0, 120000000);
  out += ' ';
  AppendJsonTime(&out, 951782400, 0);
  EXPECT_EQ(out, R"(12.5 -0.063 "1970-01-01T00:00:00.12Z" "2000-02-29T00:00:00Z")");
}

TEST(CommandRequest, Members) {
  const auto request = ParseCommandRequest(
      R"({"command":"x","CWD":"/c","Background":true,"timeout":5,"uid":1,"gid":2,"envs":{"A":"b"}})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->cwd, "/c");
  EXPECT_TRUE(request->background);
  EXPECT_EQ(request->timeout_ms, 5);
  ASSERT_TRUE(request->ids);
  EXPECT_EQ(request->ids->uid, 1U);
  EXPECT_EQ(request->ids->gid, 2U);
  ASSERT_EQ(request->envs.size(), 1U);
}

TEST(CommandRequest, NamesTheMemberThatIsWrong) {
  const auto request = ParseCommandRequest(R"({"command":"x","timeout":-1})");
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().message().find("timeout"), std::string::npos);
}

}  // namespace
}  // namespace atl::execd
