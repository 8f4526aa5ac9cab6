// Connections to the Unix sockets of sandboxes. A few idle ones are kept for later requests.
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

  // Returns an idle connection to `path` whose peer has neither closed nor sent anything. Null if
  // there is none.
  std::shared_ptr<Stream> Take(const std::string& path);
  // Keeps a connection whose last response is complete. Above the limits the oldest one is closed.
  void Put(const std::string& path, std::shared_ptr<Stream> stream);
  void Clear() { idle_.clear(); }

  using Connected = std::function<void(Result<std::shared_ptr<Stream>>)>;
  // Connects without waiting, because connect(2) on a Unix socket is immediate. If the listener's
  // queue is full, it is retried for a while.
  void Connect(const std::string& path, Connected done);

 private:
  struct Idle {
    std::string path;
    std::shared_ptr<Stream> stream;
    int64_t expires_us;  // CLOCK_MONOTONIC
  };
  void ArmSweep();
  void ConnectAgain(const std::string& path, Connected done, int64_t waited_us, int64_t pause_us);

  EventLoop& loop_;
  EventLoop::Id sweep_timer_ = 0;  // 0: not set
  std::deque<Idle> idle_;          // oldest first
};

}  // namespace atl::http
