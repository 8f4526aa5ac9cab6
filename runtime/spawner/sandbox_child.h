// The child half of a build: from clone3 to execve of execd, as a list of named steps.
//
// The child is born in new pid and uts namespaces, in its cgroup, still root of the host and in the
// spawner's memory (vfork_clone.h); the steps take it into the slot's other namespaces, mount the
// root and everything on it, leave the slot's tree behind, enter the user namespace, drop what it
// may do, and load the filter. Whatever fails is reported with the step's name, and the child
// exits; nothing it made outlives it.
#pragma once

#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host.h"
#include "runtime/spawner/slot_builder.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"

namespace atl::spawner {

// All descriptors are borrowed, and close-on-exec in the spawner.
struct ChildInput {
  const Host* host = nullptr;
  const wire::Plan* plan = nullptr;
  const Slot* slot = nullptr;
  int control = -1;                // for execd
  int listener = -1;               // for execd
  int commands = -1;               // cgroup run/, for execd
  std::vector<int> tasks;          // hybrid: where the child itself enters the v1 groups
  std::vector<int> command_tasks;  // hybrid: for execd
  std::vector<int> accounts;       // hybrid: for execd, in the order of wire::ExecdAccount
};

// What the child leaves in the memory that it shared: complete when VforkInto returns.
struct ChildReport {
  Status status = Fail(Code::kInternal, "the child died");
  wire::Step step = wire::Step::kCount;  // where it failed
  wire::StepMicros micros{};             // durations of the child's own steps
  int64_t done_at_us = 0;                // BootMicros right before execve
};

// Runs the child; does not return in it. The outcome is in `report` afterwards.
Result<pid_t> StartSandboxChild(const ChildInput& input, int cgroup, ChildReport* report);

}  // namespace atl::spawner
