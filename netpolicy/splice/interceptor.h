// Takes over some connections of a source instead of having them spliced: terminates TLS in place
// of the server, and speaks to the server in place of the client.
//
// Thread rule: on the loop; no call blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

struct InterceptedConnection {
  std::string name;  // name of the server: lower case, no trailing dot
  bool tls = false;  // the client begins with a hello; otherwise with the head of a request
  // Both connected and nonblocking. Nothing that the client has sent has been read.
  UniqueFd client, server;
};

class Interceptor {
 public:
  virtual ~Interceptor() = default;

  // Returns true if the interceptor takes connections to `name`. Asked after the policy has allowed
  // the connection.
  virtual bool Wants(std::string_view name, bool tls, uint16_t port) = 0;
  // Takes over a connection. The returned descriptor hangs up when the connection has ended. If it
  // fails, the connection is refused.
  virtual Result<UniqueFd> Take(InterceptedConnection connection) = 0;
};

}  // namespace atl::netpolicy
