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
// Of the loop's own descriptors; no id of a watch is one of these.
constexpr uint64_t kWake = 0;
constexpr uint64_t kAlarm = UINT64_MAX;
constexpr int64_t kNever = INT64_MAX;
// Ten years: longer ones are as good as that, and fit into nanoseconds.
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

// None: not a child, or somebody else has waited for it.
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
  // Each of these may hold the last reference to what unregisters others as it goes, or posts.
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
  // The kernel knows the descriptor since Watch, and allocates nothing here.
  ATOLL_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event) == 0);
}

void EventLoop::Unwatch(Id id) {
  auto node = watches_.extract(id);
  if (node.empty()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, node.mapped().fd, nullptr);
  // It may be the one that is running.
  if (in_turn_) graveyard_.push_back(std::move(node));
}

Result<EventLoop::Id> EventLoop::OnExit(int pidfd,
                                        std::function<void(std::optional<int>)> callback) {
  const Id id = next_id_;  // what Watch is about to give
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
  // Held until the maps are whole again: what it holds may cancel others as it goes.
  const auto node = timers_.extract(id);
  if (node.empty() || due_.size() <= 2 * timers_.size() + 64) return;
  // Of those that are set and cancelled far before their time, the heap would grow without end.
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
  const Id end = next_id_;  // what timers set is not of this turn, however short
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

// Sees to it that the first timer ends the wait. True: it is due already.
//
// By a descriptor that is set only when a timer comes before all that were set, not by the wait's
// own limit: with that, the processor's timer is programmed for every wait and given up after it,
// and in a virtual machine each of the two leaves the machine. A request that takes its time limit
// back is the common case; what was set for it wakes the loop once, for nothing.
bool EventLoop::SetAlarm() {
  DropStaleTimers();
  if (due_.empty() || due_.front().at_ns >= alarm_ns_) return false;
  const int64_t at_ns = due_.front().at_ns;
  if (at_ns <= MonotonicNanos()) return true;
  const itimerspec time = {.it_interval = {}, .it_value = TimeOf(at_ns)};
  // It is ours, and the time is one: nothing is left to fail.
  ATOLL_CHECK(::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &time, nullptr) == 0);
  alarm_ns_ = at_ns;
  return false;
}

void EventLoop::OnAlarm() {
  uint64_t times = 0;
  // EAGAIN: set anew since it was told.
  if (::read(alarm_.get(), &times, sizeof times) == sizeof times) alarm_ns_ = kNever;
}

int EventLoop::Wait(epoll_event* events, int64_t limit_us) {
  {
    // Whoever posts after this sees that the loop sleeps, and wakes it.
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
  // Not in place: what dies may unwatch others.
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
