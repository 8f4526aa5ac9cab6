// Names of tiers, which are the kinds of isolation that a spawner can build around a sandbox.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace atl::wire {

// The tier of namespaces, seccomp and a user namespace. Messages and records without a tier mean
// it.
inline constexpr std::string_view kNamespaceTier = "namespace";
// The tier of gVisor, whose kernel in user space serves the system calls of the sandbox.
inline constexpr std::string_view kGvisorTier = "gvisor";
// The tier of virtual machines, in which a kernel of their own serves the sandbox.
inline constexpr std::string_view kMicrovmTier = "microvm";
inline constexpr size_t kMaxTiers = 16;

// The share of a sandbox's cgroup that its wall takes, on top of the limits of its request. The
// host's budget counts it, too.
struct TierOverhead {
  uint64_t memory_bytes = 0;
  // The most processes of the host for each process of the sandbox, and those that serve them all.
  uint64_t pids_factor = 1;
  uint64_t pids = 0;
};
TierOverhead OverheadOf(std::string_view tier);

// Returns the least limit of memory with which a sandbox of the tier can start. 0: any.
uint64_t LeastMemoryOf(std::string_view tier);

// False: processes of the tier do not survive the freezer of their cgroup, so a sandbox can neither
// be paused nor copied. The freezer breaks gVisor's systrap: after a second freeze without a
// command in between, the sentry kills the programs that get a stub process from before (seen in
// each of six tries on Linux 6.18).
bool CanStandStill(std::string_view tier);

// Accepts 1 to 32 characters of [a-z0-9-].
bool ValidTierName(std::string_view name);

}  // namespace atl::wire
