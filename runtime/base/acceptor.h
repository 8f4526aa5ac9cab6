// Accepts the connections of a listening socket, for every program of ours that has one, with one
// policy for the time when descriptors run out.
//
// When no descriptor is free (EMFILE, ENFILE) or the kernel has no memory, nothing is accepted:
// connections wait in the listener's queue, and the acceptor looks ten times a second whether there
// is room again. A spare descriptor (descriptors.h) is no room, except for a listener that the
// reserve is kept for. Only the connection that was given the first spare one is lost: its peer
// sees a reset.
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
    UniqueFd socket;  // close-on-exec, does not block
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof(sockaddr_storage);
  };
  // May destroy the acceptor, or stop it.
  using OnConnection = std::function<void(Connection&)>;

  struct Config {
    std::string name;  // of the listener, in the log
    // The last descriptors are open to it, and it gives them back soon (IsSpare).
    bool may_take_reserve = false;
    int at_once = 32;  // connections taken in one go; then others have their turn
  };

  // `listener` is borrowed, must not block, and is closed after the acceptor is destroyed. An
  // error: it cannot be watched.
  static Result<std::unique_ptr<Acceptor>> Start(EventLoop& loop, int listener, Config config,
                                                 OnConnection on_connection);
  static Result<std::unique_ptr<Acceptor>> Start(Loop& loop, int listener, Config config,
                                                 OnConnection on_connection);
  virtual ~Acceptor() = default;

  // False: connections wait in the queue, for example because there are enough of them.
  virtual void SetOpen(bool open) = 0;
};

}  // namespace atl
