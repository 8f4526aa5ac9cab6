// clone3 with CLONE_VM: the child borrows this process's memory. Nothing is copied (a fork of a
// process this small costs 70 µs, and each page that either side then touches 1.5), and what the
// child finds out is simply there afterwards.
//
// What that asks of the child: it never returns from the function that called it, leaves nothing
// allocated (there is one heap), and cannot be killed half-way: nobody else knows its pid, and its
// memory limit is far above what it needs (CheckPlan), because an out-of-memory kill takes all who
// share the memory.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "runtime/base/result.h"

namespace atl::spawner {

// With CLONE_VFORK: this process waits until `run` has ended, in execve or _exit. `cgroup` is -1 or
// a cgroup v2 directory for CLONE_INTO_CGROUP (Linux 5.7): no write to cgroup.procs, which would
// wait for an RCU grace period, 4 to 15 ms. `flags`: more of clone3's, namespaces for instance.
// Such a child may have one itself.
Result<pid_t> Vfork(uint64_t flags, int cgroup, void (*run)(void*), void* argument);

// Time that a child may take while the spawner's one thread waits for it. It is shorter than the
// time after which the daemon takes the spawner for dead. Only a call that never returns (to an NFS
// server that is gone) takes longer, and alarm(2) ends that.
inline constexpr unsigned kVforkSeconds = 4;

// A child that does nothing until it is killed, or until this process dies; to be killed and reaped
// by the caller before the next one.
Result<pid_t> StartIdle(uint64_t flags);

}  // namespace atl::spawner
