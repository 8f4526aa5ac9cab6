// Limits how many sandboxes are built at once. More than about two slow each other down: the
// spawner is one thread, and the rest of a build is page-table and network work that contends.
// Further builds wait in lines, one for each tenant.
//
// The lines are served by start-time fair queuing (Goyal, Vin, Cheng, 1996). Each line has a number
// that grows by 1 / weight with each of its builds, and the line with the lowest number is served
// next. A line that was empty starts at the number of the build that was served last, so it neither
// saves up turns nor waits for a round: beside one other tenant of its weight, a build waits for no
// more than the builds in progress. Deficit round robin, which would let a newcomer wait until the
// others have used up their round, is fair only over time.
//
// The queue's limit is shared by weight among the tenants that build or wait. A tenant may wait
// beyond its share while there is room, and may use its share even if others have taken it. With
// one tenant, all of this is one queue in order of arrival, and a full one is refused.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/metrics.h"
#include "runtime/base/result.h"

namespace atl::sandbox {

class Admission {
 public:
  // Returns the weight of a tenant, at least 1.
  using WeightOf = std::function<uint32_t(const std::string& tenant)>;
  // `weights` null: every tenant has weight 1.
  Admission(size_t at_once, size_t queue_limit, WeightOf weights = {})
      : at_once_(at_once), queue_limit_(queue_limit), weights_(std::move(weights)) {}

  // Calls `run` now or later, at the tenant's turn. Pair each call of `run` with one Leave of that
  // tenant. kResourceExhausted with EAGAIN: the queue is full.
  Status Enter(const std::string& tenant, std::function<void()> run);
  void Leave(const std::string& tenant);

  // Records the time that a build spent in the queue.
  void CountWait(int64_t micros) {
    wait_seconds_.Record(static_cast<double>(micros) / 1e6, kSecondsBounds);
  }
  const Distribution& wait_seconds() const { return wait_seconds_; }

  size_t active() const { return active_; }
  size_t waiting() const { return waiting_; }
  bool idle() const { return active_ == 0 && waiting_ == 0; }

 private:
  // A tenant that builds or waits.
  struct Line {
    std::deque<std::function<void()>> waiting;
    size_t active = 0;
    uint32_t weight = 1;
    double next = 0;  // number of its first waiting build
  };
  using Lines = std::map<std::string, Line>;

  // Returns the number of builds of the line that may wait whatever others do.
  size_t ShareOf(const Line& line) const;
  Lines::iterator First();
  void Drain();

  const size_t at_once_;
  const size_t queue_limit_;
  const WeightOf weights_;
  Lines lines_;
  size_t active_ = 0;
  size_t waiting_ = 0;
  double served_ = 0;  // number of the build that was served last
  bool draining_ = false;
  Distribution wait_seconds_;
};

}  // namespace atl::sandbox
