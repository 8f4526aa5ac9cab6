// A rule that lets holders of an identity provider's tokens in: which tokens, and as whom.
//
// Thread rule: a plain value.
#pragma once

#include <map>
#include <string>

#include "runtime/tenants/role.h"

namespace atl::tenants {

struct OidcRule {
  std::string issuer;    // equals the claim "iss" byte by byte
  std::string audience;  // is the claim "aud", or one of its texts
  std::string jwks;      // address of the issuer's keys: https://… or file:///…
  // Name of a claim → the text that it is, or that is in its list. Never empty: an issuer may let
  // in everybody on earth.
  std::map<std::string, std::string> when;
  Role role = Role::kViewer;

  bool operator==(const OidcRule&) const = default;
};

}  // namespace atl::tenants
