// A signed token of an identity provider in compact form (RFC 7519), which is hostile until it is
// verified: taken apart, and its claims checked.
//
// Thread rule: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/tenants/oidc/key_set.h"

namespace atl::tenants {

inline constexpr size_t kMaxToken = 8 << 10;
// Most texts of a claim that is a list, such as the groups of a person.
inline constexpr size_t kMaxTextsOfClaim = 200;
// Difference between the provider's clock and ours that is forgiven.
inline constexpr int64_t kTokenLeewaySeconds = 60;

// Returns true for a text that has the form of a token. No key of Atoll has it.
bool IsToken(std::string_view text);

// The parts of a token that say how to verify it. Nothing of them is true yet.
struct TokenHead {
  std::string algorithm;
  std::string key_id;  // empty: none
  std::string issuer;
  std::vector<std::string> audiences;
};
// kInvalidArgument: it is no token, is too large, is unsigned, has a member twice, is of another
// type than an access or identity token, or names its own key.
Result<TokenHead> ReadTokenHead(std::string_view token);

struct Claims {
  std::string issuer;
  std::string subject;  // up to 255 bytes, not empty
  std::vector<std::string> audiences;
  int64_t expires_s = 0;  // seconds since the Unix epoch
  // Texts of all claims that are a text, or a list of at most kMaxTextsOfClaim texts.
  std::map<std::string, std::vector<std::string>> texts;
};
// Reads a payload whose signature is right, or was when the token came.
// kInvalidArgument: a claim is missing or has the wrong form.
Result<Claims> ReadClaims(std::string_view payload);

// Verifies a token by the keys of its issuer, and returns its payload, which ReadClaims can read.
// kNotFound: no key has its key id. kPermissionDenied: the signature is wrong, the key is not for
// its algorithm, or it counts not yet. kDeadlineExceeded: it has expired. kInvalidArgument: a claim
// is missing or has the wrong form.
Result<std::string> VerifyToken(std::string_view token, const TokenHead& head, const KeySet& keys,
                                int64_t now_s);

}  // namespace atl::tenants
