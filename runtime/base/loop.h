// The daemon's event loop as the parts see it: descriptors, timers, and work that may block.
//
// One thread runs the loop; every callback is called on it, never from inside the call that
// registered it. The parts that live on the loop need no locks and must not block. The daemon's is
// http::PooledLoop, over event_loop.h; tests may bring their own.
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

  // Calls `callback` whenever one of `events` (EPOLLIN, EPOLLOUT) holds for `fd`, or it is broken
  // or hung up (level-triggered), until Unwatch. The fd is borrowed and must stay open until then.
  // 0 if it cannot be watched (it is watched already).
  virtual Id Watch(int fd, uint32_t events, FdCallback callback) = 0;
  Id WatchReadable(int fd, Callback callback) {
    return Watch(fd, EPOLLIN, [callback = std::move(callback)](uint32_t) { callback(); });
  }
  // From now on those events.
  virtual void Modify(Id id, uint32_t events) = 0;
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
