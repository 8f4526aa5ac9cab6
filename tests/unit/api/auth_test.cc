#include "runtime/api/ingress/auth.h"
#include "runtime/base/same_secret.h"

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

TEST(Auth, TwoKeysThatDifferAreRefusedInAnyHeaders) {
  const std::string name = kApiKeyHeader;
  for (const std::vector<http::Header>& headers : std::vector<std::vector<http::Header>>{
           {{name, "right"}, {name, "wrong"}},
           {{name, "wrong"}, {"open-sandbox-api-key", "right"}},
           {{name, "right"}, {"Authorization", "Bearer wrong"}},
           {{"Authorization", "Bearer right"}, {"authorization", "bearer wrong"}}}) {
    EXPECT_TRUE(HasTwoKeys(With(headers)));
    EXPECT_FALSE(HoldsKey(With(headers), "right"));
  }
  for (const std::vector<http::Header>& headers : std::vector<std::vector<http::Header>>{
           {{name, "right"}},
           {{name, "right"}, {name, "right"}},
           {{name, "right"}, {"Authorization", "Bearer right"}},
           {{name, "right"}, {"Authorization", "Basic wrong"}}}) {
    EXPECT_FALSE(HasTwoKeys(With(headers)));
    EXPECT_TRUE(HoldsKey(With(headers), "right"));
  }
}

TEST(Auth, WithoutAKeyTheHostIsThisOne) {
  for (const char* host : {"127.0.0.1:8080", "localhost", "LocalHost:1", "[::1]:8080", "[::1]",
                           "127.9.9.9", "127.0.0.1:65535"}) {
    EXPECT_TRUE(Authorise(With({{"Host", host}}), "")) << host;
  }
  // DNS rebinding: the name is the attacker's, the address is ours.
  for (const char* host : {"evil.example:8080",
                           "",
                           "localhost.evil.example",
                           "10.0.0.1:8080",
                           "127.evil.example",
                           "127.0.0.1.evil.example:8080",
                           "127.0.0.1:",
                           "127.0.0.1:x",
                           "127.0.0.1:80:80",
                           "127.1",
                           "0127.0.0.1",
                           "0x7f.0.0.1",
                           "128.0.0.1",
                           "0.0.0.0:8080",
                           "[::]",
                           "[::1",
                           "::1",
                           "[::2]:1",
                           "[::ffff:10.0.0.1]",
                           "a@127.0.0.1",
                           "127.0.0.1/",
                           "localhost.",
                           "x.localhost"}) {
    const auto refused = Authorise(With({{"Host", host}}), "");
    ASSERT_FALSE(refused) << host;
    EXPECT_EQ(refused.error().status, 403) << host;
  }
}

TEST(Auth, WithoutAKeyNoPageMayCall) {
  const auto passes = [](std::vector<http::Header> headers) {
    headers.push_back({"Host", "127.0.0.1:8080"});
    return Authorise(With(headers), "").has_value();
  };
  for (const char* origin : {"https://evil.example", "null", "http://localhost.evil.example",
                             "http://localhost:3000", "http://127.0.0.1:8080", ""}) {
    EXPECT_FALSE(passes({{"Origin", origin}})) << origin;
  }
  for (const char* site : {"cross-site", "same-site", "same-origin", "", "None"}) {
    EXPECT_FALSE(passes({{"Sec-Fetch-Site", site}})) << site;
    EXPECT_FALSE(passes({{"Sec-Fetch-Site", site}, {"User-Agent", "Mozilla/5.0"}})) << site;
  }
  // An image, a link or a form of a browser that sends neither header.
  EXPECT_FALSE(passes({{"User-Agent", "Mozilla/5.0 (X11; Linux)"}}));
  // Requests from the address bar, and from programs.
  EXPECT_TRUE(passes({{"Sec-Fetch-Site", "none"}, {"User-Agent", "Mozilla/5.0"}}));
  EXPECT_FALSE(passes({{"Sec-Fetch-Site", "none"}, {"Origin", "null"}}));
  EXPECT_TRUE(passes({{"User-Agent", "curl/7.88.1"}, {"Accept", "*/*"}}));
  EXPECT_TRUE(passes({{"User-Agent", "node"}, {"Sec-Fetch-Mode", "cors"}}));
}

}  // namespace
}  // namespace atl::api
