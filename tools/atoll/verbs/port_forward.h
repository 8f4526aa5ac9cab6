// Connections from here to a port of a sandbox.
#pragma once

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "tools/atoll/client/upgrade.h"

namespace atl::cli {

// Bytes both ways between `local`, a stream socket, and a connection that carries the port's, until
// the sandbox's side ends or both have. A slow side holds back the other; neither waits for the
// other's direction. Blocks.
Status Relay(UniqueFd local, Upgraded remote);

}  // namespace atl::cli
