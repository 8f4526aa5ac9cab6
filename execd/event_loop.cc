#include "execd/event_loop.h"

#include <sys/epoll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

namespace atl::execd {
namespace {

int64_t Micros(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
}

}  // namespace

int64_t MonotonicMicros() {
  return Micros(CLOCK_MONOTONIC);
}

int64_t UnixMillis() {
  return UnixMicros() / 1000;
}

int64_t UnixMicros() {
  return Micros(CLOCK_REALTIME);
}

Result<EventLoop> EventLoop::Create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return FailSys("epoll_create1");
  EventLoop loop(std::move(epoll));
  loop.now_us_ = MonotonicMicros();
  return loop;
}

EventLoop::Slot* EventLoop::Find(Id id) {
  const uint32_t index = static_cast<uint32_t>(id);
  if (index == 0 || index > slots_.size()) return nullptr;
  Slot& slot = slots_[index - 1];
  if (slot.fd < 0 || slot.generation != static_cast<uint32_t>(id >> 32)) return nullptr;
  return &slot;
}

Result<EventLoop::Id> EventLoop::Watch(int fd, uint32_t events, FdCallback callback) {
  uint32_t index;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    slots_.emplace_back();
    index = static_cast<uint32_t>(slots_.size());
  }
  Slot& slot = slots_[index - 1];
  const Id id = (static_cast<Id>(slot.generation) << 32) | index;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    free_.push_back(index);
    return FailSys("epoll_ctl add fd " + std::to_string(fd));
  }
  slot.fd = fd;
  slot.callback = std::move(callback);
  return id;
}

void EventLoop::Modify(Id id, uint32_t events) {
  Slot* slot = Find(id);
  if (!slot) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, slot->fd, &event);
}

void EventLoop::Unwatch(Id id) {
  Slot* slot = Find(id);
  if (!slot) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, slot->fd, nullptr);
  slot->fd = -1;
  // An event of this slot that is already in the present batch no longer matches.
  ++slot->generation;
  graveyard_.push_back(std::move(slot->callback));
  slot->callback = nullptr;
  free_.push_back(static_cast<uint32_t>(id));
}

EventLoop::Id EventLoop::After(int64_t delay_us, Callback callback) {
  const Id id = next_timer_++;
  const int64_t at = MonotonicMicros() + delay_us;
  timers_.emplace(std::pair(at, id), std::move(callback));
  timer_times_.emplace(id, at);
  return id;
}

void EventLoop::Cancel(Id id) {
  const auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, id});
  timer_times_.erase(found);
}

void EventLoop::Later(Callback callback) {
  later_.push_back(std::move(callback));
}

void EventLoop::Slice(Step step) {
  slices_.push_back(std::move(step));
}

int EventLoop::WaitMillis() const {
  if (!slices_.empty() || !later_.empty()) return 0;
  if (timers_.empty()) return -1;
  const int64_t wait = timers_.begin()->first.first - MonotonicMicros();
  if (wait <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((wait + 999) / 1000, int64_t{3600} * 1000));
}

void EventLoop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first.first <= now_us_) {
    const auto first = timers_.begin();
    Callback callback = std::move(first->second);
    timer_times_.erase(first->first.second);
    timers_.erase(first);
    callback();
  }
}

void EventLoop::RunSlices() {
  // Steps added by a step run in the next round.
  std::vector<Step> present;
  present.swap(slices_);
  for (Step& step : present) {
    if (step()) slices_.push_back(std::move(step));
  }
}

void EventLoop::RunLater() {
  while (!later_.empty()) {
    std::vector<Callback> present;
    present.swap(later_);
    for (Callback& callback : present) callback();
  }
}

void EventLoop::Round() {
  epoll_event events[32];
  const int count = ::epoll_wait(epoll_.get(), events, 32, WaitMillis());
  now_us_ = MonotonicMicros();
  for (int i = 0; i < count; ++i) {
    Slot* slot = Find(events[i].data.u64);
    if (slot) slot->callback(events[i].events);
  }
  RunTimers();
  RunSlices();
  RunLater();
  graveyard_.clear();
}

void EventLoop::Run() {
  while (!quit_) Round();
}

}  // namespace atl::execd
