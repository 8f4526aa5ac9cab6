// The daemon's event loop as the parts see it: descriptors, timers, and work that may block.
//
// One thread runs the loop; every callback is called on it, never from inside the call that
// registered it. The parts that live on the loop need no locks and must not block. The
// implementation (Asio) is in runtime/http; tests may bring their own.
#pragma once

#include <cstdint>
#include <functional>

namespace atl {

class Loop {
 public:
  using Callback = std::function<void()>;
  // 0 is never a valid id.
  using Id = uint64_t;

  virtual ~Loop() = default;

  // Calls `callback` whenever `fd` is readable (level-triggered) until Unwatch. The fd is borrowed
  // and must stay open until then. 0 if it cannot be watched (it is watched already).
  virtual Id WatchReadable(int fd, Callback callback) = 0;
  virtual void Unwatch(Id id) = 0;

  // Calls `callback` once, after at least `delay_us` of CLOCK_MONOTONIC.
  virtual Id After(int64_t delay_us, Callback callback) = 0;
  // A timer that has fired, or an unknown id, is ignored.
  virtual void Cancel(Id id) = 0;

  // From any thread: runs `callback` on the loop.
  virtual void Post(Callback callback) = 0;

  // Runs `work` on a pool thread (few: 2 to 4), then `done` on the loop. Neither may throw.
  virtual void RunBlocking(Callback work, Callback done) = 0;
};

}  // namespace atl
