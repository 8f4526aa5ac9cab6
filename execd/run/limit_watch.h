// Reports to the daemon OOM kills of processes whose parent continues (children of the entrypoint,
// or of a long command), and forks that failed at the limit on processes. A command that ends with
// such an event reports more itself, and earlier (job.h). On hybrid hosts, whose pids.events does
// not support poll, only the end of a command reports failed forks.
//
// The kernel signals that an event has happened, but not to which process (v2: a file that supports
// poll; hybrid: an eventfd that the spawner has registered for the group). So LimitWatch compares
// counts: Core::noted holds the count that other parts have already reported.
//
// Thread rule: the event loop's thread.
#pragma once

#include <array>

#include "execd/core/core.h"
#include "runtime/base/event_loop.h"

namespace atl::execd {

class LimitWatch {
 public:
  // Reports no events of a kind whose controller or notification does not exist.
  explicit LimitWatch(Core* core);
  LimitWatch(const LimitWatch&) = delete;
  LimitWatch& operator=(const LimitWatch&) = delete;
  ~LimitWatch();

 private:
  struct Source {
    int fd = -1;
    EventLoop::Id watch = 0, rest = 0;
  };
  void Open(LimitEvent event);
  void Listen(LimitEvent event);
  void Hear(LimitEvent event);

  Core& core_;
  std::array<Source, Core::kLimitEvents> sources_;
};

}  // namespace atl::execd
