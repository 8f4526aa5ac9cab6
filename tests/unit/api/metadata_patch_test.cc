#include "runtime/api/requests/metadata_patch.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace atl::api {
namespace {

std::string Refusal(const std::string& body, std::string_view type = "application/json") {
  const auto patch = ParseMetadataPatch(body, type);
  if (patch) return "fine";
  const auto answer = nlohmann::json::parse(patch.error().body);
  return std::to_string(patch.error().status) + " " + answer.at("code").get<std::string>();
}

TEST(MetadataPatch, SetsAndRemoves) {
  const auto patch = ParseMetadataPatch(R"({"a":"1","b":null,"!":null,"x.y/z":""})", "");
  ASSERT_TRUE(patch);
  const sandbox::Changes::MetadataPatch expected = {
      {"a", "1"}, {"b", std::nullopt}, {"!", std::nullopt}, {"x.y/z", ""}};
  EXPECT_EQ(*patch, expected);
  EXPECT_EQ(Refusal("{}", "application/merge-patch+json; charset=utf-8"), "fine");
}

TEST(MetadataPatch, Refusals) {
  EXPECT_EQ(Refusal(R"({"opensandbox.io/id":"x"})"), "400 INVALID_METADATA_LABEL");
  EXPECT_EQ(Refusal(R"({"opensandbox.io/id":null})"), "fine");
  EXPECT_EQ(Refusal(R"({"a b":"x"})"), "400 SANDBOX::INVALID_METADATA_LABEL");
  EXPECT_EQ(Refusal(R"({"a":"x y"})"), "400 SANDBOX::INVALID_METADATA_LABEL");
  for (const char* body : {"", "[]", "null", "1", R"({"a":1})", R"({"a":{}})", "{"}) {
    EXPECT_EQ(Refusal(body).substr(0, 3), "422") << body;
  }
  EXPECT_EQ(Refusal("{}", "text/plain").substr(0, 3), "422");
}

}  // namespace
}  // namespace atl::api
