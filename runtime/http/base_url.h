// The address of a server as people write it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::http {

struct BaseUrl {
  std::string host;  // a name or a literal address, without brackets
  uint16_t port = 80;
  std::string authority;  // for the Host field
  std::string prefix;     // "" or "/path", without a slash at its end
};

// "http://HOST[:PORT][/PREFIX]". Anything else is kInvalidArgument, and says what was expected.
Result<BaseUrl> ParseBaseUrl(const std::string& url);

}  // namespace atl::http
