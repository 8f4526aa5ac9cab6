#include "runtime/api/gate/credential.h"

#include <gtest/gtest.h>

#include "runtime/api/ingress/endpoint_token.h"
#include "runtime/base/base64.h"

namespace atl::api {
namespace {

constexpr char kSandbox[] = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

TEST(Credential, KeysAndTokensAreFound) {
  const std::string key = "atl_abcdefg2_" + std::string(41, 'X') + "-_";
  const std::string token = EndpointTokens("secret").Make("f_0123456789ab", kSandbox);
  for (const std::string& one : {key, token}) {
    for (const std::string& text :
         {one, "Bearer " + one, "a=b; c=" + one + "; d", "/x/" + one + "/y", one + "more",
          "atl_" + one, "e1." + one, "a%zz%" + one, "Basic " + EncodeBase64("a:" + one),
          "basic  " + EncodeBase64(one + ":")}) {
      EXPECT_TRUE(HoldsCredential(text)) << text;
    }
    EXPECT_FALSE(HoldsCredential(one.substr(0, one.size() - 1)));
    EXPECT_FALSE(HoldsCredential(one.substr(1)));
  }
  EXPECT_TRUE(HoldsCredential("%61tl%5fabcdefg2_" + std::string(43, 'X')));
  EXPECT_TRUE(HoldsCredential("%zz%65%31%2E" + token.substr(3)));
}

TEST(Credential, SignedTokensAreHiddenFromReadersOnly) {
  const std::string token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln-_8";
  EXPECT_EQ(WithoutTokens("GET /x?t=" + token + "&n=1"), "GET /x?t=***&n=1");
  EXPECT_EQ(WithoutTokens("Bearer " + token), "Bearer ***");
  for (const char* text : {"eyJ", "eyJ.eyJ", "eyJ.eyJ.", "eyJ..x", "keyJ.a.b"}) {
    EXPECT_EQ(WithoutTokens(text), text);
  }
  EXPECT_FALSE(HoldsCredential(token));
}

TEST(Credential, OtherTextsAreNot) {
  const std::string secret(43, 'X');
  for (const std::string& text :
       {std::string(), std::string("atl_"), std::string("e1."), std::string("e1.a.b.c"),
        "atl_ABCDEFGH_" + secret, "atl_abcdefg1_" + secret, "atl_abcdefg2-" + secret,
        "atl_abcdefg2_" + secret.substr(1) + "!", "e1.." + std::string(kSandbox) + "." + secret,
        "Bearer " + EncodeBase64("atl_abcdefg2_" + secret), std::string("Basic !"),
        std::string("Basic "), std::string("100%")}) {
    EXPECT_FALSE(HoldsCredential(text)) << text;
  }
}

}  // namespace
}  // namespace atl::api
