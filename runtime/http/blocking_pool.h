// A few threads for blocking work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/result.h"

namespace atl::http {

class BlockingPool {
 public:
  // kResourceExhausted: the kernel allows no more threads.
  static Result<std::unique_ptr<BlockingPool>> Create(int threads);
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;
  // Waits for running work. Drops work that has not started.
  ~BlockingPool();

  // Queues `work`, which must not throw. May be called from any thread.
  void Run(std::function<void()> work);

 private:
  BlockingPool() = default;
  void Serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace atl::http
