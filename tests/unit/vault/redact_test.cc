// Removes secrets from answers.
#include "netpolicy/vault/redact.h"

#include <gtest/gtest.h>

#include <string>

#include "netpolicy/vault/encoding.h"
#include "tests/unit/vault/vaults.h"

namespace atl::vault {
namespace {

std::string Redacted(const Vault& vault, std::string_view text) {
  return Redactor(vault).Redact(text).value_or("as it is");
}

TEST(VaultRedact, ReplacesWhatWasSent) {
  const Vault vault = WithAuth("'type':'bearer','credential':'one'", "s3cret-1", "s3cret-2");
  EXPECT_EQ(Redacted(vault, "s3cret-1"), "[REDACTED]");
  EXPECT_EQ(Redacted(vault, "got Bearer s3cret-1, and s3cret-1."),
            "got [REDACTED], and [REDACTED].");
  EXPECT_EQ(Redacted(vault, "s3cret-1s3cret-1"), "[REDACTED][REDACTED]");
  EXPECT_EQ(Redacted(vault, ""), "as it is");
  EXPECT_EQ(Redacted(vault, "S3CRET-1"), "as it is");
  // No binding uses it.
  EXPECT_EQ(Redacted(vault, "s3cret-2"), "as it is");
}

TEST(VaultRedact, KnowsEveryRendering) {
  const std::string value = "p/w \"+<\xc3\xbc";
  const Vault vault =
      WithAuth("'type':'apiKey','name':'X-A','credential':'one'", "p/w \\\"+<\\u00fc");
  for (const std::string& text :
       {value, UrlEncoded(value), FormEncoded(value), JsonEscaped(value, JsonStyle::kAscii),
        JsonEscaped(value, JsonStyle::kHtml), std::string("p%2fw%20%22%2b%3c%c3%bc"),
        std::string("p%2Fw+%22%2B%3C%C3%bc"), std::string("p/w%20\"+<%C3%BC"),
        std::string("%70/w%20%22%2b<%c3%bc")}) {
    EXPECT_EQ(Redacted(vault, "x=" + text + ";"), "x=[REDACTED];") << text;
  }
  EXPECT_EQ(Redacted(vault, "100%25+%zz%"), "as it is");
}

TEST(VaultRedact, KnowsWhatIsEncodedRepeatedly) {
  const std::string value = "user:p w+\"1%";
  const Vault vault =
      WithAuth("'type':'apiKey','name':'X-A','credential':'one'", "user:p w+\\\"1%");
  std::string url = value, form = value;
  for (size_t layers = 1; layers <= Redactor::kMaxLayers; ++layers) {
    url = UrlEncoded(url);
    form = FormEncoded(form);
    EXPECT_EQ(Redacted(vault, "x=" + url + ";"), "x=[REDACTED];") << layers;
    EXPECT_EQ(Redacted(vault, "x=" + form + ";"), "x=[REDACTED];") << layers;
  }
  EXPECT_EQ(Redacted(vault, "/login?next=%2Fa%3Fk%3Duser%253Ap%2520w%252B%25221%2525"),
            "/login?next=%2Fa%3Fk%3D[REDACTED]");
  const std::string json = JsonEscaped(JsonEscaped(value, JsonStyle::kHtml), JsonStyle::kHtml);
  EXPECT_EQ(Redacted(vault, json), "[REDACTED]");
  // Deeper encodings are not decoded, because looking for their end would take as long as a server
  // wants. All of it is removed.
  EXPECT_EQ(Redacted(vault, "x=" + UrlEncoded(url)), "[REDACTED]");
  std::string deep = "%";
  for (int i = 0; i < 20'000; ++i) deep += "25";
  EXPECT_EQ(Redacted(vault, deep), "[REDACTED]");
}

TEST(VaultRedact, KnowsPlaceholdersAndSubstitutedValues) {
  const Vault vault = WithAuth(
      "'type':'passthrough','substitutions':[{'credential':'two','placeholder':'{{two}}',"
      "'in':['query']}]",
      "unused-1", "sub/stituted");
  EXPECT_EQ(Redacted(vault, "/?a=sub%2Fstituted&b={{two}}&c=%7B%7Btwo%7D%7D"),
            "/?a=[REDACTED]&b=[REDACTED]&c=[REDACTED]");
}

TEST(VaultRedact, KnowsWhatBasicMeans) {
  // user:open sesame
  const Vault vault = WithAuth("'type':'basic','credential':'one'", "dXNlcjpvcGVuIHNlc2FtZQ==");
  EXPECT_EQ(Redacted(vault, "Basic dXNlcjpvcGVuIHNlc2FtZQ=="), "[REDACTED]");
  EXPECT_EQ(Redacted(vault, "dXNlcjpvcGVuIHNlc2FtZQ"), "[REDACTED]");
  EXPECT_EQ(Redacted(vault, "dXNlcjpvcGVuIHNlc2FtZQ%3D%3D"), "[REDACTED]");
  EXPECT_EQ(Redacted(vault, "user:open sesame"), "[REDACTED]");
  EXPECT_EQ(Redacted(vault, "pw=open+sesame"), "pw=[REDACTED]");
  EXPECT_EQ(Redacted(vault, "user"), "as it is");
  // user:pw. The password alone is too short, because it would match too much other text.
  const Vault brief = WithAuth("'type':'basic','credential':'one'", "dXNlcjpwdw==");
  EXPECT_EQ(Redacted(brief, "user:pw"), "[REDACTED]");
  EXPECT_EQ(Redacted(brief, "pw"), "as it is");
}

// A server may overlap two secrets so that half of one remains.
TEST(VaultRedact, CoversTextsThatOverlap) {
  const Vault vault = WithAuth(
      "'type':'customHeaders','headers':[{'name':'X-A','credential':'one'},{'name':'X-B',"
      "'credential':'two'}]",
      "abc", "cdefgh");
  EXPECT_EQ(Redacted(vault, "abcdefgh"), "[REDACTED]");
  EXPECT_EQ(Redacted(vault, "xabcabcdefghy"), "x[REDACTED][REDACTED]y");
  const Vault repeated = WithAuth("'type':'bearer','credential':'one'", "aXa");
  EXPECT_EQ(Redacted(repeated, "aXaXa"), "[REDACTED]");
}

TEST(VaultRedact, DoesNotReadItsOwnMarker) {
  const Vault vault = WithAuth(
      "'type':'customHeaders','headers':[{'name':'X-A','credential':'one'},{'name':'X-B',"
      "'credential':'two'}]",
      "RED", "s3cret");
  EXPECT_EQ(Redacted(vault, "s3cret"), "[REDACTED]");
}

TEST(VaultRedact, LeavesTheLengthOfTheAnswer) {
  const Vault vault = WithAuth("'type':'bearer','credential':'one'", "12");
  http::Headers headers;
  headers.Add("Content-Length", "12");
  headers.Add("Transfer-Encoding", "12");
  headers.Add("Location", "/?k=12");
  headers.Add("Set-Cookie", "a=12; b=3");
  EXPECT_TRUE(Redactor(vault).RedactHeaders(headers));
  EXPECT_EQ(headers.Get("content-length"), "12");
  EXPECT_EQ(headers.Get("transfer-encoding"), "12");
  EXPECT_EQ(headers.Get("location"), "/?k=[REDACTED]");
  EXPECT_EQ(headers.Get("set-cookie"), "a=[REDACTED]; b=3");
  http::Headers clean;
  clean.Add("Server", "x");
  EXPECT_FALSE(Redactor(vault).RedactHeaders(clean));
}

// Texts within each other match at every byte.
TEST(VaultRedact, BoundsItsWork) {
  Vault vault = MustParse("{'credentials':[{'name':'c','source':{'value':'v'}}]}");
  Binding binding;
  for (size_t i = 1; i <= kMaxSubstitutions; ++i) {
    binding.auth.substitutions.push_back({"c", std::string(i, 'a'), {Surface::kBody}});
  }
  vault.bindings.push_back(std::move(binding));
  EXPECT_EQ(Redactor(vault).Redact(std::string(64 << 10, 'a')), "[REDACTED]");
}

}  // namespace
}  // namespace atl::vault
