// A thread that runs one job after the other while its owner waits for each. For jobs that move
// their thread into namespaces for good.
//
// Thread rule: one owner.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/base/result.h"

namespace atl::bench {

class OwnThread {
 public:
  OwnThread() : thread_([this] { Serve(); }) {}
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
  ~OwnThread() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Status Do(const std::function<Status()>& job) {
    Status result;
    std::unique_lock lock(mutex_);
    job_ = [&] { result = job(); };
    changed_.notify_all();
    changed_.wait(lock, [this] { return !job_; });
    return result;
  }

 private:
  void Serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || job_; });
      if (stop_) return;
      job_();
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards changed_, job_ and stop_
  std::condition_variable changed_;
  std::function<void()> job_;  // the next job, or the one that is running
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace atl::bench
