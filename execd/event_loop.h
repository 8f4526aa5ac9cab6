// The event loop of execd: one thread, epoll, timers, and work cut into slices.
//
// Every callback is called from Run(), never from inside the call that registered it. A callback
// may unwatch or cancel anything, itself included: a removed callback is destroyed after the round
// in which it was removed, so that it may finish. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class EventLoop {
 public:
  using Id = uint64_t;  // 0 is never valid
  using FdCallback = std::function<void(uint32_t events)>;
  using Callback = std::function<void()>;
  // Returns true while there is more to do.
  using Step = std::function<bool()>;

  static Result<EventLoop> Create();
  EventLoop(EventLoop&&) = default;

  // `events` are EPOLLIN, EPOLLOUT, EPOLLRDHUP; level-triggered. The fd is borrowed; Unwatch it
  // before it is closed.
  Result<Id> Watch(int fd, uint32_t events, FdCallback callback);
  void Modify(Id id, uint32_t events);
  void Unwatch(Id id);

  // Calls once, after at least `delay_us`. Cancelling what has fired, or 0, does nothing.
  Id After(int64_t delay_us, Callback callback);
  void Cancel(Id id);

  // Runs at the end of the present round, before the loop waits again.
  void Later(Callback callback);
  // Calls `step` once a round until it returns false. A step should take a few milliseconds at
  // most: descriptors and timers are served between two steps.
  void Slice(Step step);

  // Microseconds of CLOCK_MONOTONIC, read at the start of the round.
  int64_t now_us() const { return now_us_; }

  void Run();
  void Quit() { quit_ = true; }

 private:
  explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  struct Slot {
    int fd = -1;
    uint32_t generation = 0;
    FdCallback callback;
  };
  Slot* Find(Id id);
  int WaitMillis() const;
  void Round();
  void RunTimers();
  void RunSlices();
  void RunLater();

  UniqueFd epoll_;
  std::deque<Slot> slots_;  // a deque: a callback runs in place while others are added
  std::vector<uint32_t> free_;
  std::map<std::pair<int64_t, Id>, Callback> timers_;
  std::map<Id, int64_t> timer_times_;
  Id next_timer_ = 1;
  std::vector<Callback> later_;
  std::vector<Step> slices_;
  std::vector<FdCallback> graveyard_;
  int64_t now_us_ = 0;
  bool quit_ = false;
};

// Microseconds of CLOCK_MONOTONIC.
int64_t MonotonicMicros();
// Since the Unix epoch.
int64_t UnixMillis();
int64_t UnixMicros();

}  // namespace atl::execd
