// Tells of processes that were killed for memory while what started them goes on: children of the
// entrypoint, or of a command that takes its time. Of a command that ends with it, its own end says
// more, and sooner (job.h).
//
// The kernel tells that something was killed (v2: memory.events, which polls; hybrid: an eventfd
// that the spawner has bound to the group), and not what. So it is counted, a moment later: whoever
// has told of a kill by then has it in Core::oom_kills_noted.
//
// Thread rule: the loop's.
#pragma once

#include "execd/core/core.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class OomWatch {
 public:
  // Without a memory controller, or the kernel's word, it never hears of any.
  explicit OomWatch(Core* core);
  OomWatch(const OomWatch&) = delete;
  OomWatch& operator=(const OomWatch&) = delete;
  ~OomWatch();

 private:
  void Hear();
  void Count();

  Core& core_;
  UniqueFd events_;  // v2
  int heard_on_ = -1;
  EventLoop::Id watch_ = 0, later_ = 0;
};

}  // namespace atl::execd
