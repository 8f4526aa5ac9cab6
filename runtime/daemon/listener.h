// The API's listening socket, bound before anything else is touched: a port that is taken must
// leave the host as it was.
#pragma once

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

struct Listener {
  UniqueFd socket;
  uint16_t port = 0;  // the real one, if 0 was asked for
};
Result<Listener> BindListener(const Config& config);

}  // namespace atl::daemon
