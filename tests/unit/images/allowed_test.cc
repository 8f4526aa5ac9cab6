#include "images/allowed.h"

#include <gtest/gtest.h>

namespace atl::images {
namespace {

const std::string kOne = "sha256:" + std::string(64, '1');
const std::string kTwo = "sha256:" + std::string(64, '2');

bool Allows(const std::string& rule, const std::string& name, const std::string& digest = kOne) {
  const auto checked = CheckAllowedRule(rule);
  EXPECT_TRUE(checked) << rule;
  return checked && CheckAllowed({*checked}, name, digest).has_value();
}

TEST(AllowedImages, AreFoundByNameAndDigest) {
  EXPECT_TRUE(CheckAllowed({}, "any:1", kOne));
  EXPECT_TRUE(Allows("python:3.11", "python:3.11"));
  EXPECT_FALSE(Allows("python:3.11", "python:3.12"));
  EXPECT_FALSE(Allows("python:3.11", "team/python:3.11"));
  EXPECT_TRUE(Allows("python", "python:3.12"));
  EXPECT_FALSE(Allows("python", "python2:1"));
  EXPECT_TRUE(Allows("docker.io/library/python:3*", "python:3.12"));
  EXPECT_TRUE(Allows("registry.example:5000/*", "registry.example:5000/a/b:1"));
  EXPECT_FALSE(Allows("registry.example:5000/*", "registry.example:5000x/b:1"));
  EXPECT_TRUE(Allows("*", "any:1"));
  EXPECT_TRUE(Allows("python:3.11@" + kOne, "python:3.11", kOne));
  EXPECT_FALSE(Allows("python:3.11@" + kOne, "python:3.11", kTwo));
  EXPECT_FALSE(Allows("python:3.11@" + kOne, "other:1", kOne));
  EXPECT_TRUE(Allows("@" + kOne, "any:1", kOne));
  EXPECT_FALSE(Allows("@" + kOne, "any:1", kTwo));
  EXPECT_TRUE(Allows("python@" + kOne, "python:3.11", "")) << "it is not known yet";
  EXPECT_TRUE(CheckAllowed({"a:1", "b:1"}, "b:1", kOne)) << "one is enough";
}

TEST(AllowedImages, RefusalsSayWhatIsAllowed) {
  const Status refused = CheckAllowed({"python:*", "@" + kOne}, "other:1", kTwo);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kPermissionDenied);
  for (const std::string& part : {std::string("other:1"), kTwo, std::string("python:*"), kOne}) {
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << part;
  }
}

TEST(AllowedImages, RulesAreChecked) {
  for (const std::string& bad : {std::string(), std::string("-x"), std::string("a b"),
                                 std::string("../x"), std::string("a:[b]"), std::string("a?"),
                                 std::string("x@sha256:1"), std::string("@"), "x@" + kOne + "0"}) {
    EXPECT_FALSE(CheckAllowedRule(bad)) << bad;
  }
}

}  // namespace
}  // namespace atl::images
