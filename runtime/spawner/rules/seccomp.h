// The system call filters of sandboxes, as classic BPF.
//
// The filter allows a list of calls of the native 64-bit ABI and kills a caller of any other ABI
// (i386, x32). It is compiled here, as a binary tree over runs of call numbers: some 200
// instructions that load in 40 µs, where libseccomp's linear program takes 563 µs (the kernel runs
// the program once for every call number to fill its cache of unconditional allows).
//
// Each sandbox has one filter, loaded by the slot's first process while it is still the host's
// root. The kernel grants root a program even when its budget for compiled programs
// (net.core.bpf_jit_limit) is used up. Everything in the sandbox inherits the filter, so no
// exhausted budget stops a command or a create.
//
// The filter lets two calls through for that process and the execd that it becomes alone: clone3,
// whose flags are behind a pointer, which BPF cannot follow (execd starts commands with it inside
// their cgroup), and setns into the user namespace. Both ask for the pass: 64 random bits of each
// slot's own, in an argument that the calls do not take. The pass is in the memory of execd, which
// nothing in the sandbox can read, and in the registers of a child of it until execve clears them.
// No process in a sandbox could create a namespace even if the filter failed, because the sandbox's
// user namespace has every limit of /proc/sys/user at 0.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "runtime/base/result.h"

namespace atl::spawner {

using BpfProgram = std::vector<sock_filter>;

// Builds the program for sandboxes, with a placeholder for the pass. Call once, at start.
BpfProgram BuildSandboxFilter();
// Builds the program for isolated sessions. Calls on other processes' memory, and on the root
// directory, return EACCES.
BpfProgram BuildSessionFilter();
BpfProgram WithPass(BpfProgram program, uint64_t pass);

// Loads the program for the calling thread, which needs no_new_privs or CAP_SYS_ADMIN.
Status LoadFilter(const BpfProgram& program);

}  // namespace atl::spawner
