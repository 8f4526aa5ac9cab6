// TCP ports on loopback for a kernel that does not support "ipc". Every process with access to the
// loopback can connect to them and read what the kernel publishes on iopub.
//
// execd binds the ports before it starts the kernel, without listening, and with SO_REUSEADDR.
// Linux lets a second socket with SO_REUSEADDR bind the same port and listen on it, and all sockets
// of ZeroMQ have that option. But the kernel never assigns a bound port automatically, neither to a
// listener nor to an outgoing connection. So the ports are never free, and an early connect reaches
// neither another program nor itself.
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
  // Closes the sockets of execd. Call when the kernel has bound the ports.
  void Release() { sockets_.clear(); }

 private:
  KernelPorts() = default;
  std::array<uint16_t, kCount> numbers_{};
  std::vector<UniqueFd> sockets_;
};

// Returns a non-blocking socket that is connecting or connected to that port.
Result<UniqueFd> ConnectLoopback(uint16_t port);

}  // namespace atl::execd
