// Accepts connections on a listening socket. Used by every program here, with one policy for a
// shortage of descriptors.
//
// If no descriptor is free (EMFILE, ENFILE) or the kernel has no memory, nothing is accepted:
// connections wait in the listener's queue, and the acceptor tries again ten times a second. A
// spare descriptor (descriptors.h) does not count as free, except for a listener that the reserve
// is kept for. Only the connection that was given the first spare descriptor is lost: its peer sees
// a reset.
//
// Thread rule: the loop's.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/event_loop.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

class Acceptor {
 public:
  struct Connection {
    UniqueFd socket;  // close-on-exec, nonblocking
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof(sockaddr_storage);
  };
  // Called for each connection. It may stop or destroy the acceptor.
  using OnConnection = std::function<void(Connection&)>;

  struct Config {
    std::string name;  // the listener's name in the log
    // The listener may use the reserved descriptors and returns them soon (IsSpare).
    bool may_take_reserve = false;
    int at_once = 32;  // connections accepted in one turn of the loop
  };

  // Starts to accept. `listener` is borrowed, must be nonblocking, and must stay open until the
  // acceptor is destroyed. Fails if it cannot be watched.
  static Result<std::unique_ptr<Acceptor>> Start(EventLoop& loop, int listener, Config config,
                                                 OnConnection on_connection);
  static Result<std::unique_ptr<Acceptor>> Start(Loop& loop, int listener, Config config,
                                                 OnConnection on_connection);
  virtual ~Acceptor() = default;

  // Set to false to leave connections in the queue, for example because there are enough.
  virtual void SetOpen(bool open) = 0;
};

}  // namespace atl
