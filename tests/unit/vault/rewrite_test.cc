// Credentials that are put into requests.
#include "netpolicy/vault/rewrite.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/vault/vaults.h"

namespace atl::vault {
namespace {

http::Request Get(std::string target, std::vector<http::Header> headers = {}) {
  http::Request request;
  request.method = "GET";
  request.target = std::move(target);
  request.headers.list = std::move(headers);
  return request;
}

// Returns "name: value" of each header, in order.
std::string Text(const http::Headers& headers) {
  std::string text;
  for (const http::Header& one : headers.list) text += one.name + ": " + one.value + "\n";
  return text;
}

Result<Applied> RewriteWith(const Vault& vault, http::Request& request) {
  return Rewrite(vault, vault.bindings[0], request);
}

std::string Substitution(std::string_view in) {
  return "'type':'passthrough','substitutions':[{'credential':'one','placeholder':'PH','in':[" +
         std::string(in) + "]}]";
}

TEST(VaultRewrite, SetsTheHeadersOfEachKind) {
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {"'type':'bearer','credential':'one'", "Authorization: Bearer S1\n"},
      {"'type':'basic','credential':'one'", "Authorization: Basic S1\n"},
      {"'type':'apiKey','name':'x-api-KEY','credential':'two'", "X-Api-Key: S2\n"},
      {"'type':'customHeaders','headers':[{'name':'x-b','credential':'two'},{'name':'X-A',"
       "'credential':'one'}]",
       "X-B: S2\nX-A: S1\n"},
      {"'type':'passthrough'", ""}};
  for (const auto& [auth, headers] : kCases) {
    http::Request request = Get("/v1?q=1");
    const auto applied = RewriteWith(WithAuth(auth), request);
    ASSERT_TRUE(applied) << auth;
    EXPECT_EQ(Text(request.headers), headers);
    EXPECT_EQ(request.target, "/v1?q=1");
    EXPECT_FALSE(applied->path || applied->query || applied->header);
  }
}

TEST(VaultRewrite, ReplacesWhatTheSandboxSentUnderThatName) {
  const Vault vault = WithAuth("'type':'bearer','credential':'one'");
  http::Request request =
      Get("/",
          {{"authorization", "Bearer fake"}, {"Accept", "*/*"}, {"AUTHORIZATION", "Bearer other"}});
  const auto applied = RewriteWith(vault, request);
  ASSERT_TRUE(applied);
  EXPECT_EQ(Text(request.headers), "Accept: */*\nAuthorization: Bearer S1\n");
  EXPECT_EQ(applied->headers, std::vector<std::string>{"Authorization"});
}

TEST(VaultRewrite, EncodesInPathAndQuery) {
  const Vault vault = WithAuth(Substitution("'path','query'"), "1:a b&c+d%\\u00fc");
  http::Request request = Get("/botPH/x?a=PH&b=ph&c=PHPH", {{"X-A", "PH"}});
  const auto applied = RewriteWith(vault, request);
  ASSERT_TRUE(applied);
  const std::string value = "1%3Aa%20b%26c%2Bd%25%C3%BC";
  EXPECT_EQ(request.target, "/bot" + value + "/x?a=" + value + "&b=ph&c=" + value + value);
  EXPECT_EQ(Text(request.headers), "X-A: PH\n");
  EXPECT_TRUE(applied->path && applied->query && !applied->header);
}

TEST(VaultRewrite, LooksOnlyWhereTheBindingSays) {
  http::Request request = Get("/PH?PH", {{"X-A", "PH"}});
  ASSERT_TRUE(RewriteWith(WithAuth(Substitution("'query'")), request));
  EXPECT_EQ(request.target, "/PH?S1");
  request = Get("/PH?PH", {{"X-A", "PH"}});
  ASSERT_TRUE(RewriteWith(WithAuth(Substitution("'body'")), request));
  EXPECT_EQ(request.target, "/PH?PH");
  EXPECT_EQ(Text(request.headers), "X-A: PH\n");
  request = Get("/a?");
  ASSERT_TRUE(RewriteWith(WithAuth(Substitution("'path','query'")), request));
  EXPECT_EQ(request.target, "/a?");
}

TEST(VaultRewrite, LeavesHeadersAloneThatCarryTheRequest) {
  const Vault vault = WithAuth(Substitution("'header'"), "a b\\t\\u00fc");
  http::Request request = Get("/PH", {{"Host", "PH"},
                                      {"Content-Length", "PH"},
                                      {"Connection", "X-Hop, PH"},
                                      {"X-Hop", "PH"},
                                      {"Keep-Alive", "PH"},
                                      {"Proxy-Authorization", "PH"},
                                      {"Transfer-Encoding", "PH"},
                                      {"TE", "PH"},
                                      {"Trailer", "PH"},
                                      {"Upgrade", "PH"},
                                      {"Forwarded", "PH"},
                                      {"X-Forwarded-For", "PH"},
                                      {"x-forwarded-HOST", "PH"},
                                      {"X-Forwarded-Proto", "PH"},
                                      {"Expect", "PH"}});
  const std::string before = Text(request.headers);
  request.headers.Add("Cookie", "a=PH; b=xPHx");
  request.headers.Add("Content-Type", "PH");
  const auto applied = RewriteWith(vault, request);
  ASSERT_TRUE(applied);
  EXPECT_EQ(Text(request.headers), before +
                                       "Cookie: a=a b\t\xc3\xbc; b=xa b\t\xc3\xbcx\n"
                                       "Content-Type: a b\t\xc3\xbc\n");
  EXPECT_EQ(request.target, "/PH");
  EXPECT_TRUE(applied->header);
}

// A value may look like another placeholder. A sandbox must not get the second secret through the
// value of the first.
TEST(VaultRewrite, DoesNotLookAtWhatItPutIn) {
  const Vault vault = WithAuth(
      "'type':'apiKey','name':'X-Key','credential':'one','substitutions':["
      "{'credential':'one','placeholder':'PH','in':['query','header','body']},"
      "{'credential':'two','placeholder':'OTHER','in':['query','header','body']}]",
      "OTHER-PH", "S2");
  http::Request request = Get("/?a=PH&b=OTHER", {{"X-A", "PH OTHER"}, {"X-Key", "OTHER"}});
  ASSERT_TRUE(RewriteWith(vault, request));
  EXPECT_EQ(request.target, "/?a=OTHER-PH&b=S2");
  EXPECT_EQ(Text(request.headers), "X-A: OTHER-PH S2\nX-Key: OTHER-PH\n");
  EXPECT_EQ(*RewriteBody(vault, vault.bindings[0], {}, "PH OTHER"), "OTHER-PH S2");
}

TEST(VaultRewrite, RefusesToLeaveThePath) {
  for (const char* value : {"..", "a/b", "../..", "%2e%2e", "a\\\\b", "..;x"}) {
    const Vault vault = WithAuth(Substitution("'path','query'"), value);
    http::Request request = Get("/v1/PH/x");
    const auto applied = RewriteWith(vault, request);
    ASSERT_FALSE(applied) << value;
    EXPECT_EQ(applied.error().code(), Code::kPermissionDenied);
    EXPECT_EQ(applied.error().message().find(value), std::string::npos);
    // The same value is harmless in a query.
    request = Get("/v1/x?PH");
    EXPECT_TRUE(RewriteWith(vault, request)) << value;
  }
  // Halves of "..": the sandbox has written one of them.
  http::Request request = Get("/v1/.PH/x");
  EXPECT_FALSE(RewriteWith(WithAuth(Substitution("'path'"), "."), request));
  // Choose accepts this as a part of a name, but not beside a value.
  request = Get("/v1/@a%2fb/PH");
  EXPECT_FALSE(RewriteWith(WithAuth(Substitution("'path'")), request));
}

TEST(VaultRewrite, BoundsTheHead) {
  const Vault vault = WithAuth(Substitution("'query','header'"), std::string(kMaxHeadValue, 'x'));
  http::Request request = Get("/?PHPHPHPHPHPHPHPHPH");
  const auto target = RewriteWith(vault, request);
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code(), Code::kResourceExhausted);
  std::vector<http::Header> headers;
  for (int i = 0; i < 9; ++i) headers.push_back({"X-" + std::to_string(i), "PH"});
  request = Get("/", headers);
  const auto all = RewriteWith(vault, request);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code(), Code::kResourceExhausted);
}

// Our own checks would refuse this vault.
TEST(VaultRewrite, SendsNoHeaderThatCannotBeSent) {
  Vault vault = WithAuth("'type':'bearer','credential':'one'");
  vault.credentials[0].value = "a\r\nX: y";
  http::Request request = Get("/");
  const auto split = RewriteWith(vault, request);
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code(), Code::kInternal);
  vault.credentials.clear();
  EXPECT_FALSE(RewriteWith(vault, request));
}

TEST(VaultRewrite, HoldsOnlyBodiesThatItCanRead) {
  const Vault in_body = WithAuth(Substitution("'body'"));
  const Binding& binding = in_body.bindings[0];
  const auto holds = [&](std::vector<http::Header> list) {
    http::Headers headers;
    headers.list = std::move(list);
    return SubstitutesBody(binding, headers);
  };
  EXPECT_TRUE(holds({}));
  EXPECT_TRUE(holds({{"Content-Type", "image/png"}}));
  EXPECT_TRUE(holds({{"Content-Encoding", "Identity"}}));
  EXPECT_FALSE(holds({{"Content-Encoding", "gzip"}}));
  EXPECT_FALSE(holds({{"Content-Encoding", "identity"}, {"content-encoding", "br"}}));
  EXPECT_FALSE(holds({{"Content-Encoding", "identity, zstd"}}));
  EXPECT_FALSE(holds({{"Content-Type", "Multipart/form-data; boundary=x"}}));
  const Vault elsewhere = WithAuth(Substitution("'path','query','header'"));
  EXPECT_FALSE(SubstitutesBody(elsewhere.bindings[0], {}));
}

TEST(VaultRewrite, EncodesInABodyAsItsTypeAsksFor) {
  const Vault vault = WithAuth(Substitution("'body'"), "a b\\n\\\"\\u00fc&");
  const auto rewritten = [&](const char* type, std::string_view body) {
    http::Headers headers;
    headers.Add("Content-Type", type);
    const auto result = RewriteBody(vault, vault.bindings[0], headers, body);
    return result ? result->value_or("as it is") : "refused";
  };
  const std::string json = R"({"k":"a b\n\"\u00fc&"})";
  EXPECT_EQ(rewritten("application/json", R"({"k":"PH"})"), json);
  EXPECT_EQ(rewritten("Application/Problem+JSON ; charset=utf-8", R"({"k":"PH"})"), json);
  EXPECT_EQ(rewritten("application/x-www-form-urlencoded", "k=PH&l=1"), "k=a+b%0A%22%C3%BC%26&l=1");
  EXPECT_EQ(rewritten("text/plain", "PH,PH"), "a b\n\"\xc3\xbc&,a b\n\"\xc3\xbc&");
  EXPECT_EQ(rewritten("text/plain", "ph"), "as it is");
  EXPECT_EQ(rewritten("text/plain", ""), "as it is");
  EXPECT_EQ(rewritten("text/plain", "PH\xff"), "as it is");
}

TEST(VaultRewrite, BoundsTheBody) {
  const Vault vault = WithAuth(Substitution("'body'"), std::string(kMaxValue, 'x'));
  std::string body;
  for (size_t i = 0; i <= kMaxRewrittenBody / kMaxValue; ++i) body += "PH";
  const auto grown = RewriteBody(vault, vault.bindings[0], {}, body);
  ASSERT_FALSE(grown);
  EXPECT_EQ(grown.error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace atl::vault
