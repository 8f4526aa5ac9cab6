// TCP ports on loopback for a kernel that is about to start and does not know "ipc". Whoever sees
// the loopback can connect to them: what the kernel sends on iopub is everybody's there.
//
// They are bound here first, not listening, with SO_REUSEADDR. Linux lets a second socket that has
// it too bind the same port and listen: the kernel's, as ZeroMQ's sockets all do. But nobody is
// given such a port by chance, not as a listener's nor as a connection's own; so there is no moment
// in which the ports are free, and connecting early never meets a stranger or oneself.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class KernelPorts {
 public:
  enum Port { kShell, kIopub, kStdin, kControl, kHeartbeat, kCount };

  static Result<KernelPorts> Reserve();
  uint16_t operator[](Port port) const { return numbers_[port]; }
  // The kernel has bound them.
  void Release() { sockets_.clear(); }

 private:
  KernelPorts() = default;
  std::array<uint16_t, kCount> numbers_{};
  std::vector<UniqueFd> sockets_;
};

// A socket that is connecting, or connected, to that port; not blocking.
Result<UniqueFd> ConnectLoopback(uint16_t port);

}  // namespace atl::execd
