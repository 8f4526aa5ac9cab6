// The event loop of every program here: descriptors, timers, posted work, exits of processes.
//
// Callbacks are called from Run or Turn, never from within the call that registered them. A
// callback may register, unregister and destroy anything, including itself and its owner. An
// unregistered callback is not called again, even for an event that the current turn has already
// received, and its function object lives until the end of the turn. Turns are fair: each handles a
// bounded number of events, the timers that are due, and the work posted so far. What these add
// waits for the next turn.
//
// Thread rule: one thread; Post and Quit may be called from any thread.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

class EventLoop {
 public:
  using Id = uint64_t;  // 0 is never valid; no id is used twice
  using FdCallback = std::function<void(uint32_t events)>;
  using Callback = std::function<void()>;
  // Returns true if there is more to do.
  using Step = std::function<bool()>;

  static Result<std::unique_ptr<EventLoop>> Create();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  // Destroys registered and posted callbacks without calling them. Their destructors may still
  // unregister.
  ~EventLoop();

  // Watches `fd` for `events` of epoll_ctl(2): EPOLLIN, EPOLLOUT, EPOLLRDHUP. EPOLLERR and EPOLLHUP
  // are always reported. Level-triggered unless EPOLLET is set. `fd` is borrowed, may be watched
  // only once, and must stay open until Unwatch.
  Result<Id> Watch(int fd, uint32_t events, FdCallback callback);
  // Takes effect at once: events of the current turn that are no longer wanted are not reported.
  // Makes no system call if `events` are unchanged.
  void Modify(Id id, uint32_t events);
  void Unwatch(Id id);

  // Calls `callback` once when the process has exited. If it is a child of this process, it is
  // reaped, and the callback gets its status in the form of waitpid(2); otherwise the status is
  // empty. Unwatch cancels it. `pidfd` is borrowed until then.
  Result<Id> OnExit(int pidfd, std::function<void(std::optional<int> wait_status)> callback);

  // Calls `callback` once, after at least `delay_us` of CLOCK_MONOTONIC. Due timers are called in
  // the order of their deadlines, equal ones in the order in which they were set.
  Id After(int64_t delay_us, Callback callback);
  // Cancels a timer. Ignores unknown ids and timers that have fired.
  void Cancel(Id id);

  // Calls `callback` once. May be called from any thread. Callbacks run in order, at the end of the
  // current turn if there is one.
  void Post(Callback callback);
  // Calls `step` once in each turn until it returns false. A step should take a few milliseconds at
  // most; descriptors and timers are served between steps.
  void Slice(Step step);

  // Microseconds of CLOCK_MONOTONIC at the start of the turn.
  int64_t now_us() const { return now_ns_ / 1000; }

  // Runs turns until Quit, which may be called from any thread, even before Run.
  void Run();
  void Quit();
  // Handles what is ready, after waiting for it at most `limit_us` (-1: without limit).
  void Turn(int64_t limit_us);

 private:
  struct Watched {
    int fd;
    uint32_t events;
    FdCallback callback;
  };
  using Watches = std::unordered_map<Id, Watched>;
  struct Due {
    int64_t at_ns;
    Id id;
    // The heap has the earliest one in front.
    bool operator<(const Due& other) const {
      return std::pair(at_ns, id) > std::pair(other.at_ns, other.id);
    }
  };

  EventLoop(UniqueFd epoll, UniqueFd wake, UniqueFd alarm)
      : epoll_(std::move(epoll)), wake_(std::move(wake)), alarm_(std::move(alarm)) {}
  void DropStaleTimers();
  bool SetAlarm();
  void OnAlarm();
  int Wait(epoll_event* events, int64_t limit_us);
  void RunTimers();
  void RunPosted();

  const UniqueFd epoll_;
  const UniqueFd wake_;   // an eventfd
  const UniqueFd alarm_;  // a timerfd
  Id next_id_ = 1;
  Watches watches_;
  // Watches removed in this turn. Kept as nodes, so that a running function object does not move.
  std::vector<Watches::node_type> graveyard_;
  bool in_turn_ = false;

  std::unordered_map<Id, Callback> timers_;
  std::vector<Due> due_;  // a heap; entries without a timer were cancelled
  int64_t now_ns_ = 0;
  int64_t alarm_ns_ = 0;  // when alarm_ fires; while the loop waits, not later than any timer

  std::mutex mutex_;  // protects posted_
  std::vector<Callback> posted_;
  std::vector<Callback> running_;  // callbacks of this turn; a member to reuse its memory
  // True if Post has to write to wake_.
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> quit_ = false;
};

}  // namespace atl
