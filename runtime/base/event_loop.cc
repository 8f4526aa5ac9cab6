#include "runtime/base/event_loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace atl {
namespace {

constexpr int kEventsPerTurn = 64;
// Event data of the loop's own descriptors. No watch has these ids.
constexpr uint64_t kWake = 0;
constexpr uint64_t kAlarm = UINT64_MAX;
constexpr int64_t kNever = INT64_MAX;
// Ten years. Longer delays are cut to this, which fits into nanoseconds.
constexpr int64_t kLongestUs = int64_t{10} * 365 * 86400 * 1'000'000;

int64_t MonotonicNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Status AddOwn(const UniqueFd& epoll, const UniqueFd& fd, uint64_t id, const char* name) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
    return FailSys(std::string("epoll_ctl add the loop's ") + name);
  }
  return {};
}

timespec TimeOf(int64_t ns) {
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}

// Empty if the process is not a child or was reaped elsewhere.
std::optional<int> WaitStatus(int pidfd) {
  siginfo_t info{};
  const int waited = ::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG);
  if (waited != 0 || info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return W_EXITCODE(info.si_status, 0);
  return info.si_status | (info.si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::Create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return FailSys("epoll_create1");
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return FailSys("eventfd");
  UniqueFd alarm(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!alarm) return FailSys("timerfd_create");
  ATOLL_TRY(AddOwn(epoll, wake, kWake, "eventfd"));
  ATOLL_TRY(AddOwn(epoll, alarm, kAlarm, "timerfd"));
  std::unique_ptr<EventLoop> loop(
      new EventLoop(std::move(epoll), std::move(wake), std::move(alarm)));
  loop->alarm_ns_ = kNever;
  loop->now_ns_ = MonotonicNanos();
  return loop;
}

EventLoop::~EventLoop() {
  // This is a loop, because each callback may hold the last reference to an object whose destructor
  // unregisters others, or posts.
  while (!watches_.empty() || !timers_.empty() || !posted_.empty()) {
    Watches watches;
    std::unordered_map<Id, Callback> timers;
    std::vector<Callback> posted;
    watches.swap(watches_);
    timers.swap(timers_);
    posted.swap(posted_);
  }
}

// ---- descriptors

Result<EventLoop::Id> EventLoop::Watch(int fd, uint32_t events, FdCallback callback) {
  const Id id = next_id_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return FailSys("epoll_ctl add fd " + std::to_string(fd));
  }
  watches_.emplace(id, Watched{fd, events, std::move(callback)});
  return id;
}

void EventLoop::Modify(Id id, uint32_t events) {
  const auto found = watches_.find(id);
  if (found == watches_.end() || found->second.events == events) return;
  found->second.events = events;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  // The kernel has known the descriptor since Watch, and allocates nothing here.
  ATOLL_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event) == 0);
}

void EventLoop::Unwatch(Id id) {
  auto node = watches_.extract(id);
  if (node.empty()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, node.mapped().fd, nullptr);
  // It may be the callback that is running.
  if (in_turn_) graveyard_.push_back(std::move(node));
}

Result<EventLoop::Id> EventLoop::OnExit(int pidfd,
                                        std::function<void(std::optional<int>)> callback) {
  const Id id = next_id_;  // the id that Watch will use
  return Watch(pidfd, EPOLLIN, [this, id, pidfd, callback = std::move(callback)](uint32_t) {
    Unwatch(id);
    callback(WaitStatus(pidfd));
  });
}

// ---- timers

EventLoop::Id EventLoop::After(int64_t delay_us, Callback callback) {
  const Id id = next_id_++;
  const int64_t delay_ns = std::clamp<int64_t>(delay_us, 0, kLongestUs) * 1000;
  timers_.emplace(id, std::move(callback));
  due_.push_back({MonotonicNanos() + delay_ns, id});
  std::push_heap(due_.begin(), due_.end());
  return id;
}

void EventLoop::Cancel(Id id) {
  // The callback is destroyed after the maps are consistent again, because its destructor may
  // cancel others.
  const auto node = timers_.extract(id);
  if (node.empty() || due_.size() <= 2 * timers_.size() + 64) return;
  // Without this, timers that are set and cancelled long before they are due would fill the heap.
  std::erase_if(due_, [this](const Due& due) { return !timers_.contains(due.id); });
  std::make_heap(due_.begin(), due_.end());
}

void EventLoop::DropStaleTimers() {
  while (!due_.empty() && !timers_.contains(due_.front().id)) {
    std::pop_heap(due_.begin(), due_.end());
    due_.pop_back();
  }
}

void EventLoop::RunTimers() {
  // timers set by a callback wait for the next turn, however short their delay
  const Id end = next_id_;
  for (DropStaleTimers(); !due_.empty() && due_.front().at_ns <= now_ns_ && due_.front().id < end;
       DropStaleTimers()) {
    const auto node = timers_.extract(due_.front().id);
    node.mapped()();
  }
}

// ---- work for later

void EventLoop::Post(Callback callback) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(callback));
    wake = asleep_.exchange(false);
  }
  if (wake) ::eventfd_write(wake_.get(), 1);
}

void EventLoop::Slice(Step step) {
  Post([this, step = std::move(step)]() mutable {
    if (step()) Slice(std::move(step));
  });
}

void EventLoop::RunPosted() {
  {
    const std::lock_guard lock(mutex_);
    running_.swap(posted_);
  }
  for (Callback& each : running_) {
    const Callback callback = std::move(each);
    callback();
  }
  running_.clear();
}

// ---- turns

// Makes the first timer end the wait. Returns true if it is already due.
//
// Uses a timerfd that is set only if a timer is earlier than all that were set before, and not the
// timeout of the wait. With a timeout the kernel would program the CPU's timer for every wait and
// cancel it afterwards, and in a virtual machine both cause an exit. The common case is a request
// that cancels its timeout; its alarm then wakes the loop once for nothing.
bool EventLoop::SetAlarm() {
  DropStaleTimers();
  if (due_.empty() || due_.front().at_ns >= alarm_ns_) return false;
  const int64_t at_ns = due_.front().at_ns;
  if (at_ns <= MonotonicNanos()) return true;
  const itimerspec time = {.it_interval = {}, .it_value = TimeOf(at_ns)};
  // The descriptor and the time are valid, so it cannot fail.
  ATOLL_CHECK(::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &time, nullptr) == 0);
  alarm_ns_ = at_ns;
  return false;
}

void EventLoop::OnAlarm() {
  uint64_t times = 0;
  // EAGAIN: the timer was set again after the event.
  if (::read(alarm_.get(), &times, sizeof times) == sizeof times) alarm_ns_ = kNever;
}

int EventLoop::Wait(epoll_event* events, int64_t limit_us) {
  {
    // A thread that posts after this point sees that the loop sleeps, and wakes it.
    const std::lock_guard lock(mutex_);
    const bool busy = !posted_.empty() || quit_;
    if (busy) limit_us = 0;
    asleep_ = !busy;
  }
  if (limit_us != 0 && SetAlarm()) limit_us = 0;
  const timespec limit = TimeOf(std::clamp<int64_t>(limit_us, 0, kLongestUs) * 1000);
  const int count = ::epoll_pwait2(epoll_.get(), events, kEventsPerTurn,
                                   limit_us < 0 ? nullptr : &limit, nullptr);
  ATOLL_CHECK(count >= 0 || errno == EINTR);
  asleep_ = false;
  return std::max(count, 0);
}

void EventLoop::Turn(int64_t limit_us) {
  epoll_event events[kEventsPerTurn];
  const int count = Wait(events, limit_us);
  now_ns_ = MonotonicNanos();
  in_turn_ = true;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kWake) {
      eventfd_t ignored;
      ::eventfd_read(wake_.get(), &ignored);
      continue;
    }
    if (events[i].data.u64 == kAlarm) {
      OnAlarm();
      continue;
    }
    const auto found = watches_.find(events[i].data.u64);
    if (found == watches_.end()) continue;
    const uint32_t told = events[i].events & (found->second.events | EPOLLERR | EPOLLHUP);
    if (told != 0) found->second.callback(told);
  }
  RunTimers();
  RunPosted();
  in_turn_ = false;
  // Moved out first, because destructors may unwatch others.
  const auto dead = std::exchange(graveyard_, {});
}

void EventLoop::Run() {
  while (!quit_.exchange(false)) Turn(-1);
}

void EventLoop::Quit() {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
    wake = asleep_.exchange(false);
  }
  if (wake) ::eventfd_write(wake_.get(), 1);
}

}  // namespace atl
