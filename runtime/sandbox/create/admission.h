// How many sandboxes are built at once. More than about two only make each other slower: the
// spawner is one thread, and the rest of a build is page-table and network work that contends. The
// others wait in order of arrival, up to a bound, past which a client is told to come again.
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

  // Calls `run` at once or later; each run is ended by one Leave. A full queue is
  // kResourceExhausted with EAGAIN.
  Status Enter(std::function<void()> run);
  void Leave();

  // How long somebody stood in the queue.
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
