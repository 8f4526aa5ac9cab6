// Listening sockets, bound before anything else is touched: a port that is taken must leave the
// host as it was.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::daemon {

struct Listener {
  UniqueFd socket;
  uint16_t port = 0;  // the real one, if 0 was asked for
};
// `host`: a literal address. `flag` is that of the port, for errors. `stored`: under that name
// systemd keeps the socket across restarts of the unit; clients that come meanwhile wait in its
// queue instead of being refused.
Result<Listener> BindListener(const std::string& host, uint16_t port, const std::string& flag,
                              const std::string& stored);

}  // namespace atl::daemon
