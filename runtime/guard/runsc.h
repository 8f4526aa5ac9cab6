// Starts gVisor's runsc in the slot.
//
// Thread rule: blocks; for a process with one thread.
#pragma once

#include <sys/types.h>

#include "runtime/base/result.h"

namespace atl::guard {

// Runs runsc until the sandbox whose configuration is in kGuardBundle (wire/guard.h) has started,
// and returns the sandbox's first process on the host, a child of this process 1. Its exit code is
// execd's. kUnavailable: runsc failed; the error ends with what it said last.
Result<pid_t> StartSandbox();

}  // namespace atl::guard
