#include "runtime/base/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace atl {
namespace {

std::string Nested(size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

std::string Refusal(std::string_view text, size_t* at = nullptr) {
  auto value = ParseJson(text, kMaxJsonLevels, at);
  return value ? "taken" : value.error().message();
}

TEST(JsonText, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(JsonText({{"m", "a\xff"}}), "{\"m\":\"a\xef\xbf\xbd\"}");
  EXPECT_EQ(OrderedJsonText({{"z", "a\xff"}, {"a", 1}}), "{\"z\":\"a\xef\xbf\xbd\",\"a\":1}");
}

TEST(JsonText, PrettyIsOfLettersThatDriveNoTerminal) {
  EXPECT_EQ(PrettyJson({{"m", "\x1b\u009b"}}), "{\n  \"m\": \"\\u001b\\u009b\"\n}");
}

TEST(JsonText, AFaultHasItsPlaceAndNothingOfTheText) {
  size_t at = 7;
  EXPECT_EQ(Refusal("{\"secret\" 1}", &at), "not JSON at byte 11");
  EXPECT_EQ(at, 10U);
  EXPECT_EQ(Refusal("", &at), "not JSON at byte 1");
  EXPECT_EQ(at, 0U);
  EXPECT_EQ(Refusal("[1e999]", &at), "a number is out of range");
  EXPECT_EQ(at, 0U);
}

TEST(JsonText, LevelsAreCountedOutsideOfTexts) {
  EXPECT_EQ(Refusal(Nested(kMaxJsonLevels)), "taken");
  EXPECT_EQ(Refusal(Nested(kMaxJsonLevels + 1)), "nested deeper than 32 levels");
  EXPECT_EQ(Refusal("[\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"]"),
            "taken");
  EXPECT_EQ(Refusal("[\"\\\\\"," + Nested(kMaxJsonLevels) + "]"), "nested deeper than 32 levels");
  // Siblings do not count as depth.
  std::string wide = "[0";
  for (int i = 0; i < 100; ++i) wide += ",{}";
  EXPECT_EQ(Refusal(wide + "]"), "taken");
}

TEST(JsonText, NullIsWhatIsNone) {
  EXPECT_TRUE(JsonOrNull("{").is_null());
  EXPECT_TRUE(JsonOrNull(Nested(1001)).is_null());
  EXPECT_TRUE(JsonOrNull(Nested(1000)).is_array());
  EXPECT_EQ(JsonOrNull("{\"a\":1}").value("a", 0), 1);
}

TEST(JsonText, MembersComeInTheOrderOfTheText) {
  std::string seen;
  const auto visit = [&seen](const std::string& name, const nlohmann::json& value) {
    seen += name + "=" + JsonText(value) + ";";
  };
  EXPECT_EQ(VisitMembers(R"({"b":1,"a":{"c":[2]},"b":[{"d":3},[[4]],"x"]} )", visit),
            ObjectText::kWhole);
  EXPECT_EQ(seen, R"(b=1;a={};b=[null,null,"x"];)");
  EXPECT_EQ(VisitMembers("{}x", visit), ObjectText::kTrailing);
  EXPECT_EQ(VisitMembers(std::string_view("{}\0", 3), visit), ObjectText::kTrailing);
  for (const char* none : {"", "[{}]", "{\"a\":1", "7", "x{}"}) {
    EXPECT_EQ(VisitMembers(none, visit), ObjectText::kNone) << none;
  }
  const std::string deep = "{\"a\":" + Nested(30'000) + "}";
  EXPECT_EQ(VisitMembers(deep, [](const std::string&, const nlohmann::json&) {}),
            ObjectText::kWhole);
}

}  // namespace
}  // namespace atl
