// clone3 with CLONE_VM | CLONE_VFORK: the child borrows this process's memory until it executes
// execd or exits, and this process waits that long. Nothing is copied (a fork of a process this
// small costs 70 µs, and each page that either side then touches 1.5), and what the child finds out
// is simply there afterwards.
//
// What that asks of the child: it never returns from the function that called it, leaves nothing
// allocated (there is one heap), and cannot be killed half-way: nobody else knows its pid, and its
// memory limit is far above what a build needs (CheckPlan), because an out-of-memory kill takes all
// who share the memory.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "runtime/base/result.h"

namespace atl::spawner {

// `run` must end in execve or _exit. `cgroup` is a cgroup v2 directory for CLONE_INTO_CGROUP.
Result<pid_t> VforkInto(uint64_t namespaces, int cgroup, void (*run)(void*), void* argument);

}  // namespace atl::spawner
