// What the sandbox's v1 groups count, on hybrid hosts. On cgroup v2 the same stands in the subtree
// whose directory execd holds, and there are no such files. Thread rule: any.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/wire/start.h"

namespace atl::execd {

// What the kernel counts against a sandbox's limits.
enum class LimitEvent : uint8_t {
  kOomKill,      // a process was killed for memory
  kForkRefused,  // the limit of processes kept somebody from starting another
  kCount,
};

// How often it has happened, by the kernel's file for that: memory.events or memory.oom_control,
// pids.events. 0 if that cannot be read.
int64_t ReadCount(int file, LimitEvent event);

class Accounts {
 public:
  // None.
  Accounts() = default;
  // Those that execd was born with (wire::kExecdAccountsFd), if it was; before anything else is
  // opened, which could take their numbers.
  static Accounts Inherited();

  bool present() const { return first_ >= 0; }
  // Absent without these files.
  std::optional<int64_t> Number(wire::ExecdAccount account) const;
  // How often that has happened to commands so far.
  int64_t Count(LimitEvent event) const;
  // Readable when there may be more of them. Only where they are present.
  static int OomEvents();

 private:
  explicit Accounts(int first) : first_(first) {}
  int first_ = -1;
};

}  // namespace atl::execd
