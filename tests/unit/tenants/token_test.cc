// Tokens of identity providers: those that are let in, and the forgeries.
#include "runtime/tenants/oidc/token.h"

#include <gtest/gtest.h>

#include "runtime/base/base64.h"
#include "runtime/base/sha256.h"
#include "runtime/tenants/oidc/base64_url.h"
#include "runtime/tenants/oidc/key_set.h"
#include "tests/unit/tenants/token_keys.h"

namespace atl::tenants {
namespace {

// Returns "", or the code of the refusal.
std::string Verify(const std::string& token, int64_t now_s = kNow) {
  const auto keys = KeySet::Parse(KeySetText());
  EXPECT_TRUE(keys);
  const auto head = ReadTokenHead(token);
  if (!head) return "head: " + head.error().message();
  const auto payload = VerifyToken(token, *head, **keys, now_s);
  EXPECT_TRUE(!payload || ReadClaims(*payload)->subject == "alice");
  return payload ? "" : std::string(CodeName(payload.error().code()));
}

std::string Joined(const std::string& head, const std::string& payload,
                   const std::string& signature) {
  return EncodeBase64Url(head) + "." + EncodeBase64Url(payload) + "." + signature;
}

TEST(Token, SignedOnesAreLetIn) {
  EXPECT_EQ(Verify(Rsa().Sign(UsualClaims())), "");
  EXPECT_EQ(Verify(Ec().Sign(UsualClaims())), "");
  EXPECT_EQ(Verify(Rsa().Sign(UsualClaims(), {{"alg", "PS256"}})), "");
  EXPECT_EQ(Verify(Rsa().Sign(UsualClaims(), {{"alg", "RS512"}, {"typ", "at+jwt"}})), "");
  EXPECT_EQ(Verify(Rsa().Sign(With("aud", {"other", "atoll"}))), "");
}

TEST(Token, ForgeriesAreRefused) {
  const std::string good = Rsa().Sign(UsualClaims());
  const size_t first = good.find('.');
  const size_t second = good.find('.', first + 1);
  EXPECT_EQ(Verify(Stranger().Sign(UsualClaims())), "permission_denied");
  // The payload of one token under the signature of another.
  const std::string other = Rsa().Sign(With("groups", {"team-blue"}));
  EXPECT_EQ(Verify(other.substr(0, other.rfind('.')) + good.substr(second)), "permission_denied");
  const auto by_hand = [&](const json& header, const std::string& signature) {
    return EncodeBase64Url(JsonText(header)) + good.substr(first, second - first) + "." + signature;
  };
  EXPECT_NE(Verify(by_hand({{"alg", "none"}, {"kid", "rsa"}}, "")), "");
  EXPECT_EQ(Verify(by_hand({{"alg", "none"}, {"kid", "rsa"}}, "AAAA")), "permission_denied");
  // The public key as the secret of a symmetric signature.
  const json hmac = {{"alg", "HS256"}, {"kid", "rsa"}};
  const std::string signed_part =
      EncodeBase64Url(JsonText(hmac)) + good.substr(first, second - first);
  for (const std::string& secret :
       {JsonText(Rsa().Public()), Rsa().Public().at("n").get<std::string>()}) {
    EXPECT_EQ(Verify(signed_part + "." + EncodeBase64Url(HmacSha256(secret, signed_part))),
              "permission_denied");
  }
  // The type of the key decides, not the token.
  EXPECT_EQ(Verify(Rsa().Sign(UsualClaims(), {{"kid", "ec"}})), "permission_denied");
  EXPECT_EQ(Verify(Ec().Sign(UsualClaims(), {{"kid", "rsa"}})), "permission_denied");
  EXPECT_EQ(Verify(Rsa().Sign(UsualClaims(), {{"kid", "unknown"}})), "not_found");
  for (const char* name : {"jku", "x5u", "jwk", "crit", "x5c", "b64"}) {
    const std::string token = Rsa().Sign(UsualClaims(), {{name, "[\"https://evil.example\"]"}});
    EXPECT_EQ(Verify(token), std::string("head: the header has ") + name);
  }
}

TEST(Token, MembersThatOccurTwiceAreRefused) {
  // Another reader of JSON would take the first of them.
  const std::string head = R"({"alg":"HS256","alg":"RS256","kid":"rsa"})";
  const std::string claims = JsonText(UsualClaims());
  EXPECT_EQ(Verify(Joined(head, claims, "AAAA")), "head: the header has a member twice");
  const std::string twice = R"({"aud":"other",)" + claims.substr(1);
  const std::string good = R"({"alg":"RS256","kid":"rsa"})";
  EXPECT_EQ(Verify(Joined(good, twice, "AAAA")), "head: the payload has a member twice");
  EXPECT_EQ(Verify(Joined(good, R"({"\u0061ud":"other",)" + claims.substr(1), "AAAA")),
            "head: the payload has a member twice");
  EXPECT_FALSE(ReadClaims(twice));
}

TEST(Token, OtherTypesOfTokensAreRefused) {
  EXPECT_EQ(Verify(Rsa().Sign(UsualClaims(), {{"typ", "JWT"}})), "");
  EXPECT_NE(Verify(Rsa().Sign(UsualClaims(), {{"typ", "logout+jwt"}})), "");
  EXPECT_NE(Verify(Rsa().Sign(UsualClaims(), {{"typ", "dpop+jwt"}})), "");
}

TEST(Token, SignaturesHaveOneSize) {
  for (const Signer* signer : {&Rsa(), &Ec()}) {
    const std::string token = signer->Sign(UsualClaims());
    const size_t dot = token.rfind('.');
    EXPECT_EQ(Verify(token.substr(0, token.size() - 4)), "permission_denied");
    EXPECT_EQ(Verify(token + "AAAA"), "permission_denied");
    EXPECT_EQ(Verify(token.substr(0, dot + 1) + "AAAA"), "permission_denied");
    // A signature of DER's form.
    EXPECT_EQ(
        Verify(token.substr(0, dot + 1) + EncodeBase64Url("\x30\x06\x02\x01\x01\x02\x01\x01")),
        "permission_denied");
  }
  // Both halves with a zero byte in front are the same numbers to a lenient reader.
  const std::string token = Ec().Sign(UsualClaims());
  const size_t dot = token.rfind('.');
  const std::string halves = *DecodeBase64Url(token.substr(dot + 1));
  const std::string wide =
      std::string(1, '\0') + halves.substr(0, 32) + std::string(1, '\0') + halves.substr(32);
  EXPECT_EQ(Verify(token.substr(0, dot + 1) + EncodeBase64Url(wide)), "permission_denied");
}

TEST(Token, TextsThatAreNoTokensAreRefused) {
  for (const std::string text :
       {"", "eyJ", "eyJ.eyJ.x", "a.b.c", "eyJhbGciOiJSUzI1NiJ9..", "eyJ=.eyJ=.x"}) {
    EXPECT_NE(Verify(text), "") << text;
  }
  EXPECT_FALSE(IsToken("atl_12345678_abcdefghijklmnopqrstuvwxyz"));
  const std::string large = Rsa().Sign(With("padding", std::string(kMaxToken, 'x')));
  EXPECT_NE(Verify(large).find("head: longer"), std::string::npos);
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  EXPECT_NE(Verify(EncodeBase64Url("{\"alg\":" + deep + "}") + "." + EncodeBase64Url("{}") + ".AA"),
            "");
}

TEST(Token, TimesHaveALeewayOfAMinute) {
  const auto at = [](const json& claims, int64_t now_s) {
    return Verify(Rsa().Sign(claims), now_s);
  };
  EXPECT_EQ(at(With("exp", kNow - 59), kNow), "");
  EXPECT_EQ(at(With("exp", kNow - 60), kNow), "deadline_exceeded");
  EXPECT_EQ(at(With("nbf", kNow + 60), kNow), "");
  EXPECT_EQ(at(With("nbf", kNow + 61), kNow), "permission_denied");
  EXPECT_EQ(at(With("iat", kNow + 61), kNow), "permission_denied");
  for (const char* name : {"exp", "iss", "sub", "aud"}) {
    EXPECT_NE(Verify(Rsa().Sign(Without(name))), "") << name;
  }
  for (const json& exp : {json("soon"), json(-1), json(1e300), json::array()}) {
    EXPECT_EQ(Verify(Rsa().Sign(With("exp", exp))), "invalid_argument");
  }
}

TEST(KeySet, LeavesOutWhatIsNotForSignatures) {
  json encryption = Rsa().Public();
  encryption["use"] = "enc";
  json small = Rsa().Public();
  small["n"] = EncodeBase64Url(std::string(128, '\xff'));
  const auto parse = [](const json& keys) { return KeySet::Parse(JsonText({{"keys", keys}})); };
  EXPECT_FALSE(parse({encryption, small, {{"kty", "oct"}, {"k", "AAAA"}}, 7}));
  const auto mixed = parse({encryption, Ec().Public()});
  ASSERT_TRUE(mixed);
  EXPECT_EQ((*mixed)->size(), 1U);
  EXPECT_EQ((*mixed)->Find("rsa"), nullptr);
  EXPECT_NE((*mixed)->Find(""), nullptr);
  EXPECT_FALSE(parse(std::vector<json>(kMaxKeysOfSet + 1, Ec().Public())));
  EXPECT_FALSE(KeySet::Parse(std::string(kMaxKeySet + 1, ' ')));
  EXPECT_FALSE(KeySet::Parse("[]"));
  json off_curve = Ec().Public();
  off_curve["y"] = off_curve["x"];
  EXPECT_FALSE(parse(json::array({off_curve})));
  json other_curve = Ec().Public();
  other_curve["crv"] = "secp256k1";
  EXPECT_FALSE(parse(json::array({other_curve})));
  other_curve["crv"] = "P-384";
  EXPECT_FALSE(parse(json::array({other_curve})));
  // A key that is for one algorithm takes no other of its type.
  json narrow = Rsa().Public();
  narrow["alg"] = "PS256";
  const auto one = parse(json::array({narrow}));
  ASSERT_TRUE(one);
  EXPECT_TRUE((*one)->Find("rsa")->Takes("PS256"));
  EXPECT_FALSE((*one)->Find("rsa")->Takes("RS256"));
}

}  // namespace
}  // namespace atl::tenants
