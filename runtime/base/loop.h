// The daemon's event loop as its parts see it: descriptors, timers, and work that may block.
//
// One thread runs the loop and calls every callback, never from within the call that registered it.
// Code on the loop needs no locks and must not block. The daemon uses http::PooledLoop, built on
// event_loop.h; tests may use their own.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace atl {

class Loop {
 public:
  using Callback = std::function<void()>;
  using FdCallback = std::function<void(uint32_t events)>;
  // 0 is never a valid id.
  using Id = uint64_t;

  virtual ~Loop() = default;

  // Calls `callback` whenever `fd` has one of `events` (EPOLLIN, EPOLLOUT), or an error or hang-up,
  // until Unwatch. Level-triggered. `fd` is borrowed and must stay open until then. Returns 0 if
  // `fd` cannot be watched, for example because it already is.
  virtual Id Watch(int fd, uint32_t events, FdCallback callback) = 0;
  Id WatchReadable(int fd, Callback callback) {
    return Watch(fd, EPOLLIN, [callback = std::move(callback)](uint32_t) { callback(); });
  }
  // Replaces the watched events.
  virtual void Modify(Id id, uint32_t events) = 0;
  virtual void Unwatch(Id id) = 0;

  // Calls `callback` once, after at least `delay_us` of CLOCK_MONOTONIC.
  virtual Id After(int64_t delay_us, Callback callback) = 0;
  // Cancels a timer. Ignores unknown ids and timers that have fired.
  virtual void Cancel(Id id) = 0;

  // Calls `callback` on the loop. May be called from any thread.
  virtual void Post(Callback callback) = 0;

  // Runs `work` on a pool thread (2 to 4 of them), then `done` on the loop. Neither may throw.
  virtual void RunBlocking(Callback work, Callback done) = 0;
};

}  // namespace atl
