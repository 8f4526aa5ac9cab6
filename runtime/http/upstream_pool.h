// Connections to the Unix sockets of sandboxes, and a few idle ones kept for the next request.
// Internal to this folder. Thread rule: the loop's thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/stream.h"

namespace atl::http {

class UpstreamPool {
 public:
  explicit UpstreamPool(EventLoop& loop) : loop_(loop) {}
  UpstreamPool(const UpstreamPool&) = delete;
  UpstreamPool& operator=(const UpstreamPool&) = delete;
  ~UpstreamPool() { loop_.Cancel(sweep_timer_); }

  // An idle connection to `path` whose peer has neither closed nor sent anything; null: none.
  std::shared_ptr<Stream> Take(const std::string& path);
  // Keeps a connection whose last response is complete. Beyond the bounds the oldest is closed.
  void Put(const std::string& path, std::shared_ptr<Stream> stream);
  void Clear() { idle_.clear(); }

  using Connected = std::function<void(Result<std::shared_ptr<Stream>>)>;
  // Connects without waiting (connect(2) on a Unix socket never takes time), unless the listener's
  // queue is full: then it tries again for a while.
  void Connect(const std::string& path, Connected done);

 private:
  struct Idle {
    std::string path;
    std::shared_ptr<Stream> stream;
    int64_t expires_us;  // of CLOCK_MONOTONIC
  };
  void ArmSweep();
  void ConnectAgain(const std::string& path, Connected done, int64_t waited_us, int64_t pause_us);

  EventLoop& loop_;
  EventLoop::Id sweep_timer_ = 0;  // 0: none is set
  std::deque<Idle> idle_;          // oldest first
};

}  // namespace atl::http
