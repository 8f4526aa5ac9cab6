// The event loop of every program of ours that has one: descriptors, timers, work for later, ends
// of processes.
//
// Every callback is called from Run or Turn, never from inside the call that registered it, and may
// register, unregister and destroy anything, itself and its owner included: one that is
// unregistered is not called again, whatever the present turn has already heard, and its function
// object lives to the end of the turn. Turns are fair: each takes a bounded number of events, the
// timers that are due, and what had been posted by then; what these add has to wait for the next.
//
// Thread rule: one thread, but Post and Quit are for all.
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
  using Id = uint64_t;  // 0 is never valid, none is ever given twice
  using FdCallback = std::function<void(uint32_t events)>;
  using Callback = std::function<void()>;
  // Returns true while there is more to do.
  using Step = std::function<bool()>;

  static Result<std::unique_ptr<EventLoop>> Create();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  // What is registered and posted is destroyed uncalled; it may still unregister things then.
  ~EventLoop();

  // `events` are those of epoll_ctl(2): EPOLLIN, EPOLLOUT, EPOLLRDHUP; EPOLLERR and EPOLLHUP are
  // told unasked. Level-triggered, unless EPOLLET is one of them. The fd is borrowed, is watched
  // once at most, and is closed after Unwatch only.
  Result<Id> Watch(int fd, uint32_t events, FdCallback callback);
  // At once: what the present turn has heard of other events is not told. Costs no call if they are
  // what they were.
  void Modify(Id id, uint32_t events);
  void Unwatch(Id id);

  // Calls once when the process has ended, and waits for it if it is a child of ours: its wait
  // status as waitpid(2) gives it, none if somebody else waits for it. Unwatch gives it up. The
  // pidfd is borrowed until then.
  Result<Id> OnExit(int pidfd, std::function<void(std::optional<int> wait_status)> callback);

  // Calls once, after at least `delay_us` of CLOCK_MONOTONIC; timers that are due at once are
  // called in the order of their times, and equal ones as they were set.
  Id After(int64_t delay_us, Callback callback);
  // A timer that has fired, or an unknown id, is ignored.
  void Cancel(Id id);

  // From any thread: calls once, at the end of the present turn if the loop is in one, and in
  // order.
  void Post(Callback callback);
  // Calls `step` once a turn until it returns false. A step should take a few milliseconds at most:
  // descriptors and timers are served between two steps.
  void Slice(Step step);

  // Microseconds of CLOCK_MONOTONIC, read at the start of the turn.
  int64_t now_us() const { return now_ns_ / 1000; }

  // Until Quit, from any thread; one before Run is not lost.
  void Run();
  void Quit();
  // Serves what is ready, after waiting for it at most `limit_us` (-1: for ever).
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
    // The heap has the first in front.
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
  // Unwatched in this turn: nodes, so that a function that runs stays where it is.
  std::vector<Watches::node_type> graveyard_;
  bool in_turn_ = false;

  std::unordered_map<Id, Callback> timers_;
  std::vector<Due> due_;  // a heap; those without a timer were cancelled
  int64_t now_ns_ = 0;
  int64_t alarm_ns_ = 0;  // what alarm_ is set to; not later than any timer while the loop waits

  std::mutex mutex_;  // of posted_
  std::vector<Callback> posted_;
  std::vector<Callback> running_;  // those of this turn; kept for its memory
  // Whoever posts has to write to wake_.
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> quit_ = false;
};

}  // namespace atl
