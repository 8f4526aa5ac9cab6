// Connections to the Unix sockets of sandboxes, and a few idle ones kept for the next request.
// Internal to this folder. Thread rule: the loop's thread.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/asio.h"

namespace atl::http {

class UpstreamPool {
 public:
  explicit UpstreamPool(asio::io_context& io) : io_(io), sweep_timer_(io) {}

  // An idle connection to `path` whose peer has neither closed nor sent anything.
  std::optional<Stream> Take(const std::string& path);
  // Keeps a connection whose last response is complete. Beyond the bounds the oldest is closed.
  void Put(const std::string& path, Stream stream);
  void Clear() { idle_.clear(); }

  // Connects without waiting (connect(2) on a Unix socket never takes time), unless the listener's
  // queue is full: then it tries again for a while.
  void Connect(const std::string& path, std::function<void(Result<Stream>)> done);

 private:
  struct Idle {
    std::string path;
    Stream stream;
    SteadyClock::time_point expires;
  };
  void ArmSweep();
  void ConnectAgain(const std::string& path, std::function<void(Result<Stream>)> done,
                    SteadyClock::duration waited, SteadyClock::duration pause);

  asio::io_context& io_;
  Timer sweep_timer_;
  bool sweep_armed_ = false;
  std::deque<Idle> idle_;  // oldest first
};

}  // namespace atl::http
