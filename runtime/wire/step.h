// What it takes to make a sandbox, in order. The same list names the step in an error and keys the
// latency metric.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::wire {

enum class Step : uint8_t {
  // A slot, ahead of time: everything that no image and no request decides.
  kCgroup,      // groups, their namespace, limits
  kUpper,       // upper and work directory
  kIds,         // user namespaces
  kClone,       // from clone3 to the first instruction of what becomes execd
  kNamespaces,  // v1 groups, cgroup namespace, sysctls
  kTree,        // the store, /dev, /sys
  kProc,        // /proc
  kMask,        // what is hidden or read-only in it
  kRlimits,
  kSeccomp,
  kUser,  // into the user namespace, ids, capabilities
  kExec,  // from the last step to the end of execve
  // A build: from the plan to an execd that stands in its root.
  kCheck,    // plan against configuration
  kLimits,   // what the plan has different from the slot
  kEnter,    // into the slot's mount and uts namespace
  kEtc,      // hostname, hosts, resolv.conf
  kOverlay,  // the root
  kMounts,   // /proc, /sys and /dev onto it
  kVolumes,
  kCover,  // the slot's tree with the root
  kGate,   // execd is told
  kState,  // record
  kCount,
};
inline constexpr Step kFirstBuildStep = Step::kCheck;
std::string_view StepName(Step step);
// Of each step; of those that were not taken 0.
using StepMicros = std::array<uint32_t, static_cast<size_t>(Step::kCount)>;

// "step mounts: …", and whether an error is such a one.
Error FailedAt(Step step, Error error);
bool IsFailedAt(Step step, const Error& error);

}  // namespace atl::wire
