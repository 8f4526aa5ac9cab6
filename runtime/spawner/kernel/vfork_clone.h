// clone3 with CLONE_VM: the child borrows this process's memory. Nothing is copied, and the parent
// reads the child's results in its own memory. A fork of a process this small costs 70 µs, and each
// page that either side then touches 1.5.
//
// The child must follow three rules. It never returns from the function that called clone. It
// leaves nothing allocated, because there is one heap. It must not be killed half-way: nobody else
// knows its pid, and its memory limit is far above its need (CheckPlan), because an out-of-memory
// kill takes everybody who shares the memory.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "runtime/base/result.h"

namespace atl::spawner {

// Clones with CLONE_VFORK: this process waits until `run` has ended, in execve or _exit. `cgroup`
// is -1 or a cgroup v2 directory for CLONE_INTO_CGROUP (Linux 5.7), because a write to cgroup.procs
// would wait for an RCU grace period, 4 to 15 ms. `flags`: further flags of clone3, for instance of
// namespaces. Such a child may itself call Vfork.
Result<pid_t> Vfork(uint64_t flags, int cgroup, void (*run)(void*), void* argument);

// Time limit of a child, in seconds, because the spawner's one thread waits for it. It is shorter
// than the time after which the daemon takes the spawner for dead. Only a call that never returns
// (to an NFS server that is gone) takes longer, and alarm(2) ends that.
inline constexpr unsigned kVforkSeconds = 4;

// Starts a child that does nothing until it is killed, or until this process dies. The caller kills
// and reaps it before it starts the next.
Result<pid_t> StartIdle(uint64_t flags);

}  // namespace atl::spawner
