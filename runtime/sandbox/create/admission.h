// Limits how many sandboxes are built at once. More than about two slow each other down: the
// spawner is one thread, and the rest of a build is page-table and network work that contends.
// Further builds queue in order of arrival. If the queue is full, the client is told
// to try again later.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>

#include "runtime/base/metrics.h"
#include "runtime/base/result.h"

namespace atl::sandbox {

class Admission {
 public:
  Admission(size_t at_once, size_t queue_limit) : at_once_(at_once), queue_limit_(queue_limit) {}

  // Calls `run` now or later. Pair each call of `run` with one Leave. kResourceExhausted with
  // EAGAIN: the queue is full.
  Status Enter(std::function<void()> run);
  void Leave();

  // Records the time that a build spent in the queue.
  void CountWait(int64_t micros) {
    wait_seconds_.Record(static_cast<double>(micros) / 1e6, kSecondsBounds);
  }
  const Distribution& wait_seconds() const { return wait_seconds_; }

  size_t active() const { return active_; }
  size_t waiting() const { return queue_.size(); }
  bool idle() const { return active_ == 0 && queue_.empty(); }

 private:
  void Drain();

  size_t at_once_;
  size_t queue_limit_;
  size_t active_ = 0;
  bool draining_ = false;
  std::deque<std::function<void()>> queue_;
  Distribution wait_seconds_;
};

}  // namespace atl::sandbox
