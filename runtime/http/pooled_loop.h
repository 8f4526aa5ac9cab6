// The daemon's loop: the event loop of base, and a few threads for blocking work.
#pragma once

#include <memory>
#include <utility>

#include "runtime/base/event_loop.h"
#include "runtime/base/loop.h"
#include "runtime/http/blocking_pool.h"

namespace atl::http {

class PooledLoop final : public Loop {
 public:
  // kResourceExhausted: the kernel allows no more descriptors or threads.
  static Result<std::unique_ptr<PooledLoop>> Create(int pool_threads);

  Id Watch(int fd, uint32_t events, FdCallback callback) override;
  void Modify(Id id, uint32_t events) override { events_->Modify(id, events); }
  void Unwatch(Id id) override { events_->Unwatch(id); }
  Id After(int64_t delay_us, Callback callback) override {
    return events_->After(delay_us, std::move(callback));
  }
  void Cancel(Id id) override { events_->Cancel(id); }
  void Post(Callback callback) override { events_->Post(std::move(callback)); }
  void RunBlocking(Callback work, Callback done) override;

  // Runs until Quit, which may be called from any thread, even before Run. The process must ignore
  // SIGPIPE.
  void Run() { events_->Run(); }
  void Quit() { events_->Quit(); }

  EventLoop& events() { return *events_; }

 private:
  PooledLoop(std::unique_ptr<EventLoop> events, std::unique_ptr<BlockingPool> pool)
      : events_(std::move(events)), pool_(std::move(pool)) {}

  const std::unique_ptr<EventLoop> events_;
  const std::unique_ptr<BlockingPool> pool_;  // last, because its threads post to events_
};

}  // namespace atl::http
