// Deadlines by the wall clock, with one timer. The wall clock may jump and the host may sleep, so
// the timer never sleeps longer than 30 seconds before it looks again.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/loop.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

class Expiry {
 public:
  using Expired = std::function<void(const std::string& id)>;
  // `keep_ended_seconds`: how long a sandbox that has ended by itself stays readable if it has no
  // deadline; none: until it is deleted.
  Expiry(Loop& loop, const Clock& clock, Expired expired,
         std::optional<int64_t> keep_ended_seconds = std::nullopt)
      : loop_(loop),
        clock_(clock),
        expired_(std::move(expired)),
        keep_ended_seconds_(keep_ended_seconds) {}
  Expiry(const Expiry&) = delete;
  Expiry& operator=(const Expiry&) = delete;
  ~Expiry() { loop_.Cancel(timer_); }

  // Sets or moves the deadline. One in the past fires from the loop, soon.
  void Set(const std::string& id, int64_t unix_ms);
  void Remove(const std::string& id);
  // The same for a sandbox as it is now: its own deadline, or the moment at which one that has
  // ended need not be readable any more.
  void SetDeadline(const Sandbox& sandbox);
  size_t size() const { return by_id_.size(); }

 private:
  void Arm();
  void Fire();

  Loop& loop_;
  const Clock& clock_;
  Expired expired_;
  const std::optional<int64_t> keep_ended_seconds_;
  std::set<std::pair<int64_t, std::string>> by_time_;
  std::unordered_map<std::string, int64_t> by_id_;
  Loop::Id timer_ = 0;
  int64_t armed_for_ = 0;  // the deadline that the timer was set for
};

}  // namespace atl::sandbox
