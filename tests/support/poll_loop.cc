#include "tests/support/poll_loop.h"

#include <poll.h>

#include <algorithm>
#include <vector>

#include "runtime/base/clock.h"

namespace atl::testing {

Loop::Id PollLoop::Watch(int fd, uint32_t events, FdCallback callback) {
  watches_[next_] = {fd, events, std::move(callback)};
  return next_++;
}

void PollLoop::Modify(Id id, uint32_t events) {
  watches_.at(id).events = events;
}

void PollLoop::Unwatch(Id id) {
  watches_.erase(id);
}

Loop::Id PollLoop::After(int64_t delay_us, Callback callback) {
  timers_[next_] = {SystemClock().BootMicros() + delay_us, std::move(callback)};
  return next_++;
}

void PollLoop::Cancel(Id id) {
  timers_.erase(id);
}

void PollLoop::Post(Callback callback) {
  posted_.push_back(std::move(callback));
}

void PollLoop::RunBlocking(Callback work, Callback done) {
  work();
  Post(std::move(done));
}

void PollLoop::RunOnce(int timeout_ms) {
  while (!posted_.empty()) {
    const Callback callback = std::move(posted_.front());
    posted_.pop_front();
    callback();
  }
  std::vector<Id> due;
  const int64_t now = SystemClock().BootMicros();
  for (const auto& [id, timer] : timers_) {
    if (timer.at_us <= now) due.push_back(id);
    timeout_ms = std::min<int>(
        timeout_ms, static_cast<int>(std::max<int64_t>(0, (timer.at_us - now + 999) / 1000)));
  }
  for (Id id : due) {
    const auto found = timers_.find(id);
    if (found == timers_.end()) continue;
    const Callback callback = std::move(found->second.callback);
    timers_.erase(found);
    callback();
  }
  if (!due.empty()) return;
  std::vector<pollfd> fds;
  std::vector<Id> ids;
  for (const auto& [id, watch] : watches_) {
    fds.push_back({watch.fd, static_cast<short>(watch.events), 0});
    ids.push_back(id);
  }
  if (::poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
  for (size_t i = 0; i < fds.size(); ++i) {
    const auto found = watches_.find(ids[i]);
    if (fds[i].revents == 0 || found == watches_.end()) continue;
    const FdCallback callback = found->second.callback;
    callback(static_cast<uint32_t>(fds[i].revents));
  }
}

bool PollLoop::RunUntil(const std::function<bool()>& ready, int timeout_ms) {
  const int64_t end = SystemClock().BootMicros() + int64_t{timeout_ms} * 1000;
  while (!ready()) {
    const int64_t left = (end - SystemClock().BootMicros()) / 1000;
    if (left <= 0) return false;
    RunOnce(static_cast<int>(left));
  }
  return true;
}

}  // namespace atl::testing
