// How execd is reached. Without options: by the gate of runtime/wire/start.h. In a virtual
// machine, where no descriptor can be inherited: by vsock, the same protocol on two ports.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

struct Options {
  // --enter-root=1: the root comes over the tree that execd was started in. The spawner says so in
  // words: an execd that does not know of it must not start, it would serve the slot's tree.
  uint32_t enter_root = 0;
  // --session=1: it is an isolated session's (runtime/wire/session.h), and stands in its root.
  uint32_t session = 0;
  // --vsock-port=N: the exec API listens on this port.
  uint32_t vsock_port = 0;
  // --vsock-control-port=N: the first connection to it is the control socket. Default: port + 1.
  uint32_t vsock_control_port = 0;
  // --vsock-peer=CID: the only context id that may connect. Default 2, the host.
  uint32_t vsock_peer = 2;
};
Result<Options> ParseOptions(int argc, char** argv);

// Waits for the gate, or with vsock for a connection, and opens the control socket and the
// listener. `accept_peer` is set if the listener's peers need a check; `pass` is the gate's.
Status OpenSockets(const Options& options, UniqueFd* control, UniqueFd* listener,
                   std::function<bool(int)>* accept_peer, uint64_t* pass);

}  // namespace atl::execd
