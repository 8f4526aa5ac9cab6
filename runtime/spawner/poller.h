// The spawner's event loop: epoll over descriptors with a function each, and one clock for retries.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

class Poller {
 public:
  using Callback = std::function<void()>;

  static Result<Poller> Create();

  // Calls back while `fd` is readable or hung up; the fd is borrowed until Remove.
  Status Add(int fd, Callback callback);
  // From now on, only while `fd` is as asked for, or hung up.
  void Await(int fd, bool readable, bool writable);
  void Remove(int fd);

  // Waits at most `timeout_ms` (-1: for ever) and serves what is ready. A callback may add and
  // remove.
  Status RunOnce(int timeout_ms);

 private:
  explicit Poller(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  UniqueFd epoll_;
  std::unordered_map<int, Callback> callbacks_;
};

}  // namespace atl::spawner
