// Tells the daemon of processes that were killed for memory while what started them goes on
// (children of the entrypoint, or of a command that takes its time), and of processes that the
// limit of their number kept from starting. A command that ends with either says more itself, and
// sooner (job.h); on hybrid hosts, whose pids.events do not poll, it is the only one to say so.
//
// The kernel tells that something has happened (v2: a file that polls; hybrid: an eventfd that the
// spawner has bound to the group), and not to whom. So it is counted: whoever has told of it by
// then has it in Core::noted.
//
// Thread rule: the loop's.
#pragma once

#include <array>

#include "execd/core/core.h"
#include "runtime/base/event_loop.h"

namespace atl::execd {

class LimitWatch {
 public:
  // Without a controller, or the kernel's word, it never hears of its events.
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
