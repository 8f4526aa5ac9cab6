// A connection on which HTTP gives way to another protocol (RFC 9110 section 7.8).
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/http/client_socket.h"
#include "runtime/http/message.h"

namespace atl::cli {

struct Upgraded {
  http::ClientSocket socket;
  http::Headers answer;
  std::string ahead;  // what the peer has sent behind its answer
};

// Asks for `protocol` with GET, and `headers` besides. `base_url` as of http::Client, with `trust`
// if it is one of https; `target` is relative to it. An answer other than 101 is an error that
// holds its status and text. Blocks.
Result<Upgraded> Upgrade(const std::string& base_url, const http::TlsContext* trust,
                         const std::string& target, const std::string& protocol,
                         const http::Headers& headers);

}  // namespace atl::cli
