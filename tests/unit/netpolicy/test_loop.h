// A Loop for tests. It calls poll(2) on the test's own thread, and only while the test runs it.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/loop.h"

namespace atl::testing {

class TestLoop : public Loop {
 public:
  Id Watch(int fd, uint32_t events, FdCallback callback) override {
    watches_[++last_id_] = {fd, events, std::move(callback)};
    return last_id_;
  }
  void Modify(Id id, uint32_t events) override { watches_.at(id).events = events; }
  void Unwatch(Id id) override { watches_.erase(id); }
  Id After(int64_t delay_us, Callback callback) override {
    timers_[++last_id_] = {Now() + delay_us, std::move(callback)};
    return last_id_;
  }
  void Cancel(Id id) override { timers_.erase(id); }
  void Post(Callback callback) override { After(0, std::move(callback)); }
  void RunBlocking(Callback work, Callback done) override {
    work();
    Post(std::move(done));
  }

  // Runs until `condition` is true. Returns false if it is still false after `limit_ms`.
  template <typename F>
  bool RunUntil(F condition, int limit_ms = 5000) {
    const int64_t end = Now() + int64_t{limit_ms} * 1000;
    while (!condition()) {
      if (Now() >= end) return false;
      Turn(end);
    }
    return true;
  }

  size_t watch_count() const { return watches_.size(); }
  size_t timer_count() const { return timers_.size(); }

 private:
  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  void Turn(int64_t end) {
    int64_t next = end;
    for (const auto& [id, timer] : timers_) next = std::min(next, timer.first);
    std::vector<pollfd> fds;
    std::vector<Id> ids;
    for (const auto& [id, watch] : watches_) {
      fds.push_back({watch.fd, static_cast<short>(watch.events), 0});
      ids.push_back(id);
    }
    const int64_t wait = std::max<int64_t>(0, next - Now());
    const timespec timeout{wait / 1000000, wait % 1000000 * 1000};
    ::ppoll(fds.data(), fds.size(), &timeout, nullptr);
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      const auto watch = watches_.find(ids[i]);
      if (watch == watches_.end()) continue;  // unwatched by an earlier callback
      const FdCallback callback = watch->second.callback;
      callback(static_cast<uint32_t>(fds[i].revents));
    }
    std::vector<Id> due;
    for (const auto& [id, timer] : timers_) {
      if (timer.first <= Now()) due.push_back(id);
    }
    for (const Id id : due) {
      auto timer = timers_.extract(id);
      if (!timer.empty()) timer.mapped().second();
    }
  }

  struct Watched {
    int fd;
    uint32_t events;
    FdCallback callback;
  };

  Id last_id_ = 0;
  std::map<Id, Watched> watches_;
  std::map<Id, std::pair<int64_t, Callback>> timers_;
};

}  // namespace atl::testing
