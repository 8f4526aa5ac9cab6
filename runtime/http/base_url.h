// The address of a server as people write it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::http {

struct BaseUrl {
  bool tls = false;
  std::string host;       // a name or a literal address, without brackets
  uint16_t port = 80;     // 443 with TLS, if none is named
  std::string authority;  // for the Host field
  std::string prefix;     // "" or "/path", without a slash at its end
};

// "http://HOST[:PORT][/PREFIX]", or https. Anything else is kInvalidArgument, and says what was
// expected.
Result<BaseUrl> ParseBaseUrl(const std::string& url);

}  // namespace atl::http
