// Who takes over some of a source's connections instead of having them spliced: ends TLS for the
// server that they are for, and speaks to that server in the client's place.
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
  std::string name;  // of the server: lower case, no dot at the end
  bool tls = false;  // the client begins with a hello, else with the head of a request
  // Both connected, not blocking. Nothing that the client has sent was read.
  UniqueFd client, server;
};

class Interceptor {
 public:
  virtual ~Interceptor() = default;

  // Whether it takes connections to `name`. Asked when the policy has allowed one.
  virtual bool Wants(std::string_view name, bool tls, uint16_t port) = 0;
  // What is returned hangs up when the connection is over. An error: the connection is refused.
  virtual Result<UniqueFd> Take(InterceptedConnection connection) = 0;
};

}  // namespace atl::netpolicy
