// Parses a registry's WWW-Authenticate header (RFC 9110, section 11).
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images::registry {

struct Challenge {
  bool bearer = false;         // otherwise basic
  std::string realm, service;  // bearer only: the issuer of tokens, and the service they are for
};

// Parses the value of WWW-Authenticate. kInvalidArgument: malformed, or neither Basic nor Bearer.
Result<Challenge> ParseChallenge(std::string_view text);

// Returns the URL to request a token from. `repository` is the one that is being fetched, whatever
// the challenge says: a server must not make us request rights for another one.
Result<std::string> TokenUrl(const Challenge& challenge, const std::string& repository);

// An absolute URL, split into "https://HOST[:PORT]" and the rest. kInvalidArgument: not an https
// URL.
struct SecureUrl {
  std::string origin;
  std::string target;  // never empty: "/" or longer
};
Result<SecureUrl> ParseSecureUrl(std::string_view url);

}  // namespace atl::images::registry
