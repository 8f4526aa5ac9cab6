// Takes everything away from this process but one directory and one input file. Called before the
// first byte of input is read; if any step fails nothing is read at all.
//
// Expected: process 1 of fresh user, mount, pid, net, ipc, uts and cgroup namespaces, uid 0 of a
// user namespace that is not the initial one, no_new_privs set, one thread.
#pragma once

#include <cstddef>

#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

// What is to be done behind it. A copy reads one tree and changes another, for which it needs more
// calls; a pack writes a file of any length; a difference is of many trees.
enum class Job { kUnpack, kCopy, kPack, kDiff };

// Checks what is expected (a run by hand on the host must do nothing), then: the mount namespace is
// emptied, `output` becomes the root directory, every descriptor but `input`, `output` and `report`
// is closed, limits, capabilities, and last the system-call filter. `layers` more, those behind
// `report`, stay open, too.
Status Confine(int input, int output, int report, const ExtractLimits& limits,
               Job job = Job::kUnpack, size_t layers = 0);

}  // namespace atl::images::unpack
