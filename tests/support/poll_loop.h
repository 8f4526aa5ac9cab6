// A Loop for tests. It calls poll(2) on the calling thread, and only while the test runs it.
// RunBlocking does its work at once, on this thread.
#pragma once

#include <deque>
#include <functional>
#include <map>

#include "runtime/base/loop.h"

namespace atl::testing {

class PollLoop final : public Loop {
 public:
  Id Watch(int fd, uint32_t events, FdCallback callback) override;
  void Modify(Id id, uint32_t events) override;
  void Unwatch(Id id) override;
  Id After(int64_t delay_us, Callback callback) override;
  void Cancel(Id id) override;
  void Post(Callback callback) override;
  void RunBlocking(Callback work, Callback done) override;

  // Serves events until `ready` holds. Returns false after `timeout_ms`.
  bool RunUntil(const std::function<bool()>& ready, int timeout_ms = 10'000);

 private:
  struct Watched {
    int fd;
    uint32_t events;
    FdCallback callback;
  };
  struct Timer {
    int64_t at_us;
    Callback callback;
  };
  void RunOnce(int timeout_ms);

  Id next_ = 1;
  std::map<Id, Watched> watches_;
  std::map<Id, Timer> timers_;
  std::deque<Callback> posted_;
};

}  // namespace atl::testing
