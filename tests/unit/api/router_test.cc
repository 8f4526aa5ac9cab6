#include "runtime/api/gate/router.h"

#include <gtest/gtest.h>

namespace atl::api {
namespace {

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    const auto nothing = [](const Call&) {};
    router.Add("GET", "/health", nothing);
    router.Add("GET", "/sandboxes", nothing);
    router.Add("POST", "/sandboxes", nothing);
    router.Add("GET", "/sandboxes/{sandbox_id}", nothing);
    router.Add("GET", "/sandboxes/{sandbox_id}/endpoints/{port}", nothing);
    router.Add("GET", "/images/{name:path}", nothing);
  }
  std::string Args(std::string_view path) {
    const auto match = router.Find("GET", path);
    if (match.handle == nullptr) return "no";
    std::string text;
    for (const std::string& arg : match.args) text += "<" + arg + ">";
    return text;
  }
  Router router;
};

TEST_F(RouterTest, Paths) {
  EXPECT_EQ(Args("/health"), "");
  EXPECT_EQ(Args("/v1/sandboxes"), "");
  EXPECT_EQ(Args("/sandboxes/abc"), "<abc>");
  EXPECT_EQ(Args("/v1/sandboxes/abc/endpoints/80"), "<abc><80>");
  EXPECT_EQ(Args("/sandboxes/a%2Fb"), "<a/b>");  // one segment, whatever it contains
  EXPECT_EQ(Args("/images/docker.io/library/python:3"), "<docker.io/library/python:3>");
  EXPECT_EQ(Args("/images/docker.io%2Fx"), "<docker.io/x>");
  for (const char* path : {"", "/", "/nope", "/sandboxes/", "/sandboxes//endpoints/80", "/v1",
                           "/v1/", "/v1/v1/sandboxes", "/images/", "/sandboxes/a/b",
                           "/sandboxes/%zz", "sandboxes", "/health/x", "/V1/sandboxes"}) {
    EXPECT_EQ(Args(path), "no") << path;
  }
}

TEST_F(RouterTest, WrongMethod) {
  const auto match = router.Find("DELETE", "/sandboxes");
  EXPECT_EQ(match.handle, nullptr);
  EXPECT_EQ(match.other_methods, (std::vector<std::string>{"GET", "POST"}));
}

TEST_F(RouterTest, ThePatternIsToldOfAPathThatThereIs) {
  EXPECT_EQ(router.Find("GET", "/v1/sandboxes/abc").pattern, "/sandboxes/{sandbox_id}");
  EXPECT_EQ(router.Find("GET", "/images/a/b").pattern, "/images/{name:path}");
  EXPECT_EQ(router.Find("DELETE", "/sandboxes").pattern, "/sandboxes");
  EXPECT_EQ(router.Find("GET", "/nope").pattern, "");
}

TEST_F(RouterTest, OnlyHealthIsOpen) {
  EXPECT_TRUE(router.Find("GET", "/health").rights->open);
  EXPECT_FALSE(router.Find("GET", "/sandboxes").rights->open);
}

TEST(RouterDeathTest, ARouteWithoutARowInTheTableOfRightsEndsTheProgram) {
  Router router;
  EXPECT_DEATH(router.Add("PUT", "/sandboxes", [](const Call&) {}), "PUT /sandboxes");
}

}  // namespace
}  // namespace atl::api
