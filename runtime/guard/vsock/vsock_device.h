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
#include <utility>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::vsock {

inline constexpr uint64_t kHostCid = 2;
// Bytes of one stream that may wait here for a host socket. All of execd's connections together,
// which are 512, may then hold 64 MiB, of the tier's overhead.
inline constexpr size_t kStreamBuffer = 128 << 10;

class VsockDevice {
 public:
  struct Limits {
    // Streams at a time, those included whose last bytes a host socket has not taken yet.
    size_t streams = 1024;
    // A guest that does not answer a connection in this time has refused it.
    int64_t connect_us = 10'000'000;
    // A stream whose end the guest does not confirm in this time is reset. Host sockets that do not
    // take the rest in this time, once the monitor has gone, lose it.
    int64_t close_us = 8'000'000;
  };
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
                                                    Ended ended, const Limits& limits);
  static Result<std::unique_ptr<VsockDevice>> Start(EventLoop& loop, UniqueFd listener,
                                                    uint64_t guest_cid, Handler handler,
                                                    Ended ended) {
    return Start(loop, std::move(listener), guest_cid, std::move(handler), std::move(ended),
                 Limits{});
  }
  virtual ~VsockDevice() = default;  // closes all streams

  // Joins `socket`, a connected stream socket, with a new stream to `port` of the guest. The end of
  // either direction and the end of both are passed on both ways. The socket is closed if the
  // guest refuses, does not answer in time, or has too many streams. A connection waits, in that
  // time, until the guest's driver is up; before the guest listens on the port, it is refused.
  virtual void Connect(uint32_t port, UniqueFd socket) = 0;
};

}  // namespace atl::vsock
