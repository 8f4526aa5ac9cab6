// A parsed URL of a server, as users write it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::http {

struct BaseUrl {
  std::string socket_path;  // Unix socket, instead of host and port; empty: none
  bool tls = false;
  std::string host;       // a name or a literal address, without brackets
  uint16_t port = 80;     // if the URL names none: 80, or 443 with TLS
  std::string authority;  // value of the Host field
  std::string prefix;     // "" or "/path", without a trailing slash
};

// Parses "http://HOST[:PORT][/PREFIX]", https, or "unix:/PATH" for a socket of this host.
// kInvalidArgument: anything else; the message says what is expected.
Result<BaseUrl> ParseBaseUrl(const std::string& url);

}  // namespace atl::http
