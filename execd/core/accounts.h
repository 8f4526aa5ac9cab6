// Counters of the sandbox's cgroup v1 groups, on hybrid hosts. On cgroup v2 the subtree that execd
// holds has the same counters, and these files do not exist. Thread rule: any.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/wire/start.h"

namespace atl::execd {

// Events that the kernel counts when the sandbox hits a limit.
enum class LimitEvent : uint8_t {
  kOomKill,      // the OOM killer killed a process
  kForkRefused,  // a fork failed at the limit on processes
  kCount,
};

// Returns how often the event has happened, by memory.events, memory.oom_control or pids.events. 0
// if the file cannot be read.
int64_t ReadCount(int file, LimitEvent event);

class Accounts {
 public:
  // No counters.
  Accounts() = default;
  // Returns the counters that execd has inherited (wire::kExecdAccountsFd), if any. Call before
  // anything else is opened, because a new descriptor could get one of their numbers.
  static Accounts Inherited();

  bool present() const { return first_ >= 0; }
  // Returns nullopt without these files.
  std::optional<int64_t> Number(wire::ExecdAccount account) const;
  // Returns how often the event has happened to commands so far.
  int64_t Count(LimitEvent event) const;
  // Descriptor that becomes readable when OOM kills may have happened. Requires present().
  static int OomEvents();

 private:
  explicit Accounts(int first) : first_(first) {}
  int first_ = -1;
};

}  // namespace atl::execd
