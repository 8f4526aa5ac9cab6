// Confines this process to one directory and one input file. Called before the first byte of input
// is read; if any step fails, nothing is read.
//
// Expected: process 1 of fresh user, mount, pid, net, ipc, uts and cgroup namespaces, uid 0 of a
// user namespace that is not the initial one, no_new_privs set, one thread.
#pragma once

#include <cstddef>

#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

// The work that follows. A copy reads one tree and changes another, so it needs more system calls.
// A pack writes a file of any length. A difference reads many trees.
enum class Job { kUnpack, kCopy, kPack, kDiff };

// Checks what is expected (a manual run on the host must do nothing). Then it empties the mount
// namespace, makes `output` the root directory, closes every descriptor except `input`, `output`
// and `report`, and applies limits, capabilities and finally the system-call filter. The `layers`
// descriptors after `report` stay open too.
Status Confine(int input, int output, int report, const ExtractLimits& limits,
               Job job = Job::kUnpack, size_t layers = 0);

}  // namespace atl::images::unpack
