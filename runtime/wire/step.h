// The steps that make a sandbox, in order. The same list names the step in an error and is the key
// of the latency metric.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::wire {

enum class Step : uint8_t {
  // Steps of a slot, made ahead of time: everything that does not depend on the image or the
  // request.
  kCgroup,      // groups, their namespace, limits
  kUpper,       // upper and work directory
  kIds,         // user namespaces
  kClone,       // time from clone3 to the first instruction of the future execd
  kNamespaces,  // v1 groups, cgroup namespace, sysctls
  kTree,        // the store, /dev, /sys
  kProc,        // /proc
  kMask,        // hidden and read-only parts of /proc
  kRlimits,
  kSeccomp,
  kUser,  // entering the user namespace, ids, capabilities
  kExec,  // time from the previous step to the end of execve
  // Steps of a build: from the plan to an execd in its root.
  kCheck,    // plan against configuration
  kLimits,   // limits that differ from the slot's
  kEnter,    // entering the slot's mount and uts namespaces
  kEtc,      // hostname, hosts, resolv.conf
  kOverlay,  // the root
  kMounts,   // moving /proc, /sys and /dev onto the root
  kVolumes,
  kCover,  // covering the slot's tree with the root
  kGate,   // telling execd
  kState,  // the record
  kCount,
};
inline constexpr Step kFirstBuildStep = Step::kCheck;
std::string_view StepName(Step step);
// Time of each step; 0 for steps that were not taken.
using StepMicros = std::array<uint32_t, static_cast<size_t>(Step::kCount)>;

// FailedAt prefixes the error with "step mounts: …"; IsFailedAt recognises it.
Error FailedAt(Step step, Error error);
bool IsFailedAt(Step step, const Error& error);

}  // namespace atl::wire
