// An HTTP connection switched to another protocol (RFC 9110 section 7.8).
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/http/client_socket.h"
#include "runtime/http/message.h"

namespace atl::cli {

struct Upgraded {
  http::ClientSocket socket;
  http::Headers answer;
  std::string ahead;  // bytes that the peer sent after its answer
};

// Sends a GET that asks for `protocol`, with additional `headers`. `base_url` is that of
// http::Client; https needs `trust`. `target` is relative to it. An answer other than 101 is an
// error with its status and text. Blocks.
Result<Upgraded> Upgrade(const std::string& base_url, const http::TlsContext* trust,
                         const std::string& target, const std::string& protocol,
                         const http::Headers& headers);

}  // namespace atl::cli
