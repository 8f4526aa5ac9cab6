// The virtio socket device of one virtual machine: joins streams of the guest with host sockets.
//
// The monitor (QEMU) connects to a Unix socket and shares the guest's memory and rings over it
// (vhost-user). Bytes then go between the guest's memory and host sockets without a copy. If a host
// socket takes less than the guest has sent, up to kStreamBuffer bytes wait here: the credit that
// the guest was given. Guest and monitor are hostile: a guest that breaks the rules of a stream
// loses the stream; a guest that breaks a ring, or a monitor that breaks the protocol, ends the
// device.
//
// Thread rule: the loop's. Callbacks are called on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::vsock {

inline constexpr uint64_t kHostCid = 2;
// Streams of one device, those included whose last bytes a host socket has not taken yet.
inline constexpr size_t kMaxStreams = 1024;
// Bytes of one stream that may wait here for a host socket.
inline constexpr size_t kStreamBuffer = 256 << 10;
// A guest answers a connection within this time, or the connection is refused.
inline constexpr int64_t kConnectTimeoutUs = 10'000'000;
// A guest confirms the end of a stream within this time, or the stream is reset. Host sockets take
// the rest within this time once the monitor has gone.
inline constexpr int64_t kCloseTimeoutUs = 8'000'000;

class VsockDevice {
 public:
  // Called when the guest connects to `port` of the host. Returns the connected stream socket that
  // the guest's stream is joined with, or an error: the guest's connection is refused. Must not
  // destroy the device.
  using Handler = std::function<Result<UniqueFd>(uint32_t port)>;
  // Called once. Success: the monitor has closed its connection, and host sockets have got what the
  // guest had sent. An error: the monitor or the guest broke the rules; all streams are closed. May
  // destroy the device. Not called if the device is destroyed earlier.
  using Ended = std::function<void(Status)>;

  // Starts to wait on `listener`, a listening Unix stream socket, for the one connection of the
  // monitor. `guest_cid` is between 3 and 2^32 - 2. `loop` is borrowed.
  static Result<std::unique_ptr<VsockDevice>> Start(EventLoop& loop, UniqueFd listener,
                                                    uint64_t guest_cid, Handler handler,
                                                    Ended ended);
  virtual ~VsockDevice() = default;  // closes all streams

  // Joins `socket`, a connected stream socket, with a new stream to `port` of the guest. The end of
  // either direction and the end of both are passed on both ways. The socket is closed if the
  // guest refuses, does not answer in kConnectTimeoutUs, or has kMaxStreams streams. Before the
  // guest's driver is up, a connection waits for it, in that time.
  virtual void Connect(uint32_t port, UniqueFd socket) = 0;
};

}  // namespace atl::vsock
