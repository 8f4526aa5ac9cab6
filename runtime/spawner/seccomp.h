// The system call filters of sandboxes, as classic BPF.
//
// The filter allows a list of calls of the native 64-bit ABI and kills whatever comes from another
// ABI (i386, x32). It is compiled here, as a binary tree over runs of call numbers: some 130
// instructions that load in 33 µs, where libseccomp's linear program takes 563 µs (the kernel runs
// the program once for every call number to fill its cache of unconditional allows).
//
// clone3 passes: its flags are behind a pointer, which BPF cannot follow, and execd needs it to
// start a command inside its cgroup. execd gives every command a second filter that refuses it with
// ENOSYS, so that libc falls back to clone, whose flags this filter does check. And no process in a
// sandbox may create a namespace even if a filter failed: the sandbox's user namespace has every
// limit of /proc/sys/user at 0.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "runtime/base/result.h"

namespace atl::spawner {

using BpfProgram = std::vector<sock_filter>;

// The program for sandboxes. Built once, at start.
BpfProgram BuildSandboxFilter();

// Loads it for the calling thread. no_new_privs must be set.
Status LoadFilter(const BpfProgram& program);

}  // namespace atl::spawner
