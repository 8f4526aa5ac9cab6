// The choice of a request's binding.
#include "netpolicy/vault/match.h"

#include <gtest/gtest.h>

#include <string>

#include "netpolicy/vault/path.h"
#include "tests/unit/vault/vaults.h"

namespace atl::vault {
namespace {

Vault Sample() {
  return MustParse(
      "{'bindings':["
      "{'name':'exact','match':{'hosts':['api.example.com'],'methods':['GET'],"
      "'paths':['/v1/*','/health']},'auth':{'type':'passthrough'}},"
      "{'name':'wild','match':{'hosts':['*.example.com']},'auth':{'type':'passthrough'}},"
      "{'name':'plain','match':{'schemes':['http'],'hosts':['plain.example']},"
      "'auth':{'type':'passthrough'}}]}");
}

// Returns the binding's name, "-" if there is none, "2" or "path" if it is ambiguous.
std::string Chosen(const Vault& vault, Scheme scheme, std::string_view host,
                   std::string_view method, std::string_view path) {
  const Choice choice = Choose(vault, scheme, host, method, path);
  switch (choice.kind) {
    case Choice::Kind::kNone:
      return "-";
    case Choice::Kind::kOne:
      return choice.binding->name;
    case Choice::Kind::kAmbiguous:
      return "2";
    case Choice::Kind::kAmbiguousPath:
      return "path";
  }
  return "?";
}
std::string ChosenFor(const Vault& vault, std::string_view path) {
  return Chosen(vault, Scheme::kHttps, "api.example.com", "GET", path);
}

TEST(VaultMatch, LooksAtSchemeHostMethodAndPath) {
  const Vault vault = Sample();
  EXPECT_EQ(ChosenFor(vault, "/v1/x"), "exact");
  EXPECT_EQ(ChosenFor(vault, "/v1/"), "exact");
  EXPECT_EQ(ChosenFor(vault, "/health"), "exact");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "api.example.com", "get", "/v1/x"), "exact");
  // If the exact host's path does not match, the wildcard binding gets the request.
  EXPECT_EQ(ChosenFor(vault, "/v1"), "wild");
  EXPECT_EQ(ChosenFor(vault, "/health/x"), "wild");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "api.example.com", "POST", "/v1/x"), "wild");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "a.b.example.com", "DELETE", ""), "wild");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "a.example.com", "OPTIONS", "/"), "-");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "example.com", "GET", "/"), "-");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "anexample.com", "GET", "/"), "-");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, ".example.com", "GET", "/"), "-");
  EXPECT_EQ(Chosen(vault, Scheme::kHttp, "api.example.com", "GET", "/v1/x"), "-");
  EXPECT_EQ(Chosen(vault, Scheme::kHttp, "plain.example", "GET", "/"), "plain");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "plain.example", "GET", "/"), "-");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "api.example.com", "GET", "*"), "-");
}

TEST(VaultMatch, SaysWhichHostsAreCovered) {
  const Vault vault = Sample();
  EXPECT_TRUE(Covers(vault, Scheme::kHttps, "api.example.com"));
  EXPECT_TRUE(Covers(vault, Scheme::kHttps, "x.y.example.com"));
  EXPECT_TRUE(Covers(vault, Scheme::kHttp, "plain.example"));
  EXPECT_FALSE(Covers(vault, Scheme::kHttp, "api.example.com"));
  EXPECT_FALSE(Covers(vault, Scheme::kHttps, "example.com"));
  EXPECT_FALSE(Covers(vault, Scheme::kHttps, ""));
  EXPECT_TRUE(TakesHost(*FindBinding(vault, "wild"), "x.example.com"));
  EXPECT_FALSE(TakesHost(*FindBinding(vault, "exact"), "x.example.com"));
}

TEST(VaultMatch, TwoOfOnePrecedenceAreAmbiguous) {
  Vault vault = Sample();
  // Check would refuse this vault.
  vault.bindings.push_back(vault.bindings[0]);
  EXPECT_EQ(ChosenFor(vault, "/v1/x"), "2");
  // A third binding does not decide between the two.
  vault.bindings.push_back(vault.bindings[1]);
  EXPECT_EQ(ChosenFor(vault, "/v1/x"), "2");
  EXPECT_EQ(Chosen(vault, Scheme::kHttp, "plain.example", "GET", "/"), "2");
}

TEST(VaultMatch, RefusesPathsThatMislead) {
  const Vault vault = Sample();
  for (const char* path :
       {"/v1/../admin", "/v1/..", "/v1/%2e%2e/admin", "/v1/.%2E/admin", "/v1/%252e%252e/x",
        "/v1/..;/admin", "/v1/..%2fadmin", "/v1/..%252fadmin", "/v1/a%252fb", "/v1/..\\admin",
        "/v1/a%5cb", "/v1/a%255Cb", "/v1/%25252525252525252525252e"}) {
    EXPECT_EQ(ChosenFor(vault, path), "path") << path;
    // A request without a credential needs no protection.
    EXPECT_EQ(Chosen(vault, Scheme::kHttps, "other.example", "GET", path), "-") << path;
  }
  for (const char* path : {"/v1/a..b", "/v1/...", "/v1/..a", "/v1/a%20b", "/v1/%zz", "/v1/%2",
                           "/v1/.", "/v1/@scope%2fname", "/v1/100%25"}) {
    EXPECT_EQ(ChosenFor(vault, path), "exact") << path;
  }
}

// If the encoded slash counted as a slash, the request would belong to another binding.
TEST(VaultMatch, RefusesEncodedSlashesBetweenBindings) {
  const Vault vault = MustParse(
      "{'bindings':[{'name':'v','match':{'hosts':['a.example'],'paths':['/v1%2f*','/p/*']},"
      "'auth':{'type':'passthrough'}},{'name':'w','match':{'hosts':['a.example'],'paths':"
      "['/v1/*']},'auth':{'type':'passthrough'}}]}");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "a.example", "GET", "/v1%2fx"), "path");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "a.example", "GET", "/p/x%2Fy"), "v");
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "a.example", "GET", "/v1/x"), "w");
  // No credential is put into this path as it is written.
  EXPECT_EQ(Chosen(vault, Scheme::kHttps, "a.example", "GET", "/p%2fx"), "-");
}

TEST(VaultPath, DecodesOnlyEscapes) {
  EXPECT_EQ(DecodeOnce("/a%2Fb%2"), "/a/b%2");
  EXPECT_EQ(DecodeOnce("%%32f%zz%"), "%2f%zz%");
  EXPECT_TRUE(IsAmbiguousPath("/a%%32fb", EncodedSlash::kOnce));
  EXPECT_TRUE(IsAmbiguousPath("/a%2fb", EncodedSlash::kNever));
  EXPECT_FALSE(IsAmbiguousPath("/a%2fb", EncodedSlash::kOnce));
  EXPECT_TRUE(HasEncodedSlash("%2F"));
  EXPECT_FALSE(HasEncodedSlash("%2"));
}

}  // namespace
}  // namespace atl::vault
