#include "runtime/api/auth.h"

#include <gtest/gtest.h>

namespace atl::api {
namespace {

http::Request With(const std::vector<http::Header>& headers) {
  http::Request request;
  request.headers.list = headers;
  return request;
}

TEST(Auth, SameSecret) {
  EXPECT_TRUE(SameSecret("secret", "secret"));
  EXPECT_FALSE(SameSecret("secreT", "secret"));
  EXPECT_FALSE(SameSecret("secre", "secret"));
  EXPECT_FALSE(SameSecret("secret1", "secret"));
  EXPECT_FALSE(SameSecret("", "secret"));
  EXPECT_FALSE(SameSecret(std::string("secret\0", 7), "secret"));
}

TEST(Auth, WithAKey) {
  EXPECT_TRUE(Authorise(With({{"open-sandbox-api-key", "k"}}), "k"));
  const auto missing = Authorise(With({}), "k");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().status, 401);
  EXPECT_NE(missing.error().body.find("MISSING_API_KEY"), std::string::npos);
  EXPECT_NE(Authorise(With({{"OPEN-SANDBOX-API-KEY", ""}}), "k").error().body.find("MISSING"),
            std::string::npos);
  const auto wrong = Authorise(With({{"OPEN-SANDBOX-API-KEY", "x"}}), "k");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().body.find("INVALID_API_KEY"), std::string::npos);
}

TEST(Auth, WithoutAKeyWebPagesAreKeptOut) {
  for (const char* host :
       {"127.0.0.1:8080", "localhost", "localhost:1", "[::1]:8080", "127.9.9.9"}) {
    EXPECT_TRUE(Authorise(With({{"Host", host}}), "")) << host;
  }
  // DNS rebinding: the name is the attacker's, the address is ours.
  for (const char* host : {"evil.example:8080", "", "localhost.evil.example", "10.0.0.1:8080"}) {
    EXPECT_FALSE(Authorise(With({{"Host", host}}), "")) << host;
  }
  EXPECT_TRUE(Authorise(With({{"Host", "localhost"}, {"Origin", "http://localhost:3000"}}), ""));
  for (const char* origin : {"https://evil.example", "null", "http://localhost.evil.example"}) {
    const auto refused = Authorise(With({{"Host", "localhost"}, {"Origin", origin}}), "");
    ASSERT_FALSE(refused) << origin;
    EXPECT_EQ(refused.error().status, 403);
  }
}

}  // namespace
}  // namespace atl::api
