// Listening sockets. They are bound before anything else is changed, so that a port that is taken
// leaves the host as it was.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::daemon {

struct Listener {
  UniqueFd socket;
  uint16_t port = 0;  // the actual port, if 0 was requested
};
// `host`: a literal address. `flag`: that of the port, for errors. `stored`: the name under which
// systemd keeps the socket across restarts of the unit; clients that connect meanwhile wait in its
// queue instead of being refused.
Result<Listener> BindListener(const std::string& host, uint16_t port, const std::string& flag,
                              const std::string& stored);

}  // namespace atl::daemon
