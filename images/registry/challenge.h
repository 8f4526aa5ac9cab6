// How a registry that lets nobody in without asking says whom it asks (RFC 9110, section 11).
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images::registry {

struct Challenge {
  bool bearer = false;         // else basic
  std::string realm, service;  // of a bearer's: who gives tokens, and for whom
};

// Of WWW-Authenticate. kInvalidArgument: neither of the two ways, or not well written.
Result<Challenge> ParseChallenge(std::string_view text);

// Where to ask for a token: the realm with what it wants to know. `repository` is what we come for,
// whatever the challenge says: a server must not have us ask for rights over something else.
Result<std::string> TokenUrl(const Challenge& challenge, const std::string& repository);

// "https://HOST[:PORT]" and the rest of an absolute URL. kInvalidArgument: another scheme, or none.
struct SecureUrl {
  std::string origin;
  std::string target;  // at least "/"
};
Result<SecureUrl> ParseSecureUrl(std::string_view url);

}  // namespace atl::images::registry
