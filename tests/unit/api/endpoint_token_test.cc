#include "runtime/api/ingress/endpoint_token.h"

#include <gtest/gtest.h>

namespace atl::api {
namespace {

constexpr char kOne[] = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
constexpr char kOther[] = "3f2504e0-4f89-41d3-9a0c-0305e82c3302";

TEST(EndpointToken, SaysWhoComesToWhichSandbox) {
  const EndpointTokens tokens("secret");
  const std::string token = tokens.Make("k3y5a1b2", kOne);
  EXPECT_EQ(token.substr(0, 49), std::string("e1.k3y5a1b2.") + kOne + ".");
  EXPECT_TRUE(EndpointTokens::IsToken(token));
  EXPECT_EQ(tokens.KeyIdOf(token, kOne), "k3y5a1b2");
  // A key's id may hold a dot: the parts behind it have a fixed size.
  EXPECT_EQ(tokens.KeyIdOf(tokens.Make("a.b", kOne), kOne), "a.b");
  // The daemon's successor accepts it.
  EXPECT_EQ(EndpointTokens("secret").KeyIdOf(token, kOne), "k3y5a1b2");
}

TEST(EndpointToken, OpensNothingElse) {
  const EndpointTokens tokens("secret");
  const std::string token = tokens.Make("k3y5a1b2", kOne);
  EXPECT_FALSE(tokens.KeyIdOf(token, kOther));
  EXPECT_FALSE(EndpointTokens("another secret").KeyIdOf(token, kOne));
  std::string moved = token;
  moved.replace(moved.find(kOne), 36, kOther);
  EXPECT_FALSE(tokens.KeyIdOf(moved, kOther));
  std::string promoted = token;
  promoted.replace(3, 8, "k3y5a1b3");
  EXPECT_FALSE(tokens.KeyIdOf(promoted, kOne));
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    EXPECT_FALSE(tokens.KeyIdOf(changed, kOne)) << i;
    EXPECT_FALSE(tokens.KeyIdOf(token.substr(0, i), kOne)) << i;
  }
  EXPECT_FALSE(tokens.KeyIdOf(token + "A", kOne));
  EXPECT_FALSE(tokens.KeyIdOf(token.substr(0, 3) + token.substr(11), kOne)) << "no key";
}

}  // namespace
}  // namespace atl::api
