// Command-line options: how clients and the daemon reach execd. Without options, through the gate
// of runtime/wire/start.h. In a virtual machine no descriptor can be inherited, so the same
// protocol runs over two vsock ports (runtime/wire/vm.h).
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

struct Options {
  // --enter-root=1: the root will be mounted over the tree that execd was started in. The spawner
  // passes this as an option, so that an execd that does not support it refuses to start. It would
  // otherwise serve the slot's tree.
  uint32_t enter_root = 0;
  // --session=1: this execd belongs to an isolated session (runtime/wire/session.h), and is already
  // in its root.
  uint32_t session = 0;
  // --guarded=1: a guard started execd behind its wall (runtime/wire/guard.h). The control socket
  // is there; execd makes the listener itself, in the directory that it shares with the guard.
  uint32_t guarded = 0;
  // --vsock-port=N: the port of the exec API. execd connects to the peer's port N + 1, and that
  // connection is the control socket.
  uint32_t vsock_port = 0;
  // --vsock-peer=CID: the only context id that may connect, and to which execd connects. Default:
  // 2, the host.
  uint32_t vsock_peer = 2;
};
Result<Options> ParseOptions(int argc, char** argv);

// Waits for the gate, unless there is vsock, and opens the control socket and the listener.
// `accept_peer` is set if each peer of the listener must be checked. `pass` gets the gate's pass.
Status OpenSockets(const Options& options, UniqueFd* control, UniqueFd* listener,
                   std::function<bool(int)>* accept_peer, uint64_t* pass);

}  // namespace atl::execd
