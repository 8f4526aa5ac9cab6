// The system call filters of sandboxes, as classic BPF.
//
// The filter allows a list of calls of the native 64-bit ABI and kills whatever comes from another
// ABI (i386, x32). It is compiled here, as a binary tree over runs of call numbers: some 200
// instructions that load in 40 µs, where libseccomp's linear program takes 563 µs (the kernel runs
// the program once for every call number to fill its cache of unconditional allows).
//
// There is one for the whole sandbox, loaded by the slot's first process while it is still the
// host's root: what a filter takes of the kernel's budget for compiled programs
// (net.core.bpf_jit_limit) is given to that one even when it is used up, and everything in the
// sandbox inherits it, so that no exhausted budget stops a command or a create.
//
// Two calls in it are for that process and the execd that it becomes alone: clone3 (its flags are
// behind a pointer, which BPF cannot follow; execd starts commands with it inside their cgroup) and
// setns (into the user namespace). They pass with the pass: 64 random bits of each slot's own, in
// an argument that the calls do not take. It is in the memory of execd, which nothing in the
// sandbox can read, and in the registers of a child of its until execve clears them. And no process
// in a sandbox may create a namespace even if a filter failed: the sandbox's user namespace has
// every limit of /proc/sys/user at 0.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "runtime/base/result.h"

namespace atl::spawner {

using BpfProgram = std::vector<sock_filter>;

// The program for sandboxes, but for the pass: nobody knows it. Built once, at start.
BpfProgram BuildSandboxFilter();
// The same for isolated sessions: what concerns other processes' memory, and the root, is EACCES.
BpfProgram BuildSessionFilter();
BpfProgram WithPass(BpfProgram program, uint64_t pass);

// Loads it for the calling thread, which must have no_new_privs or CAP_SYS_ADMIN.
Status LoadFilter(const BpfProgram& program);

}  // namespace atl::spawner
