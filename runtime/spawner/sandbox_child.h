// The child half of a build: from clone3 to execve of execd, as a list of named steps.
//
// The child is born in new mount, pid, ipc and uts namespaces, in its cgroup, still root of the
// host; the steps take it into the slot's network and cgroup namespaces, mount the root and
// everything on it, leave the host's tree behind, enter the user namespace, drop what it may do,
// and load the filter. Whatever fails is reported with the step's name, and the child exits;
// nothing it made outlives it.
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
  int status = -1;                 // write end of the status pipe
};

// What the status pipe carries: one message, then end of file. Success is a report without failure
// followed by end of file at execve (the pipe is close-on-exec); end of file alone is a death.
struct ChildReport {
  bool failed = false;
  wire::Step step = wire::Step::kCount;
  int error_number = 0;
  Code code = Code::kInternal;
  wire::StepMicros micros{};  // durations of the child's own steps
  int64_t done_at_us = 0;     // BootMicros right before execve
  std::string message;

  std::string Encode() const;
};
Result<ChildReport> DecodeChildReport(std::string_view bytes);
inline constexpr size_t kMaxChildReport = 4096;

// Runs in the child; does not return. `cloned_at_us`: BootMicros right before clone3.
[[noreturn]] void RunSandboxChild(const ChildInput& input, int64_t cloned_at_us);

}  // namespace atl::spawner
