// Makes one isolated session of a sandbox: cgroup, uppers, namespaces, and an execd in them.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/wire/request.h"

namespace atl::spawner {

// Call in a process of its own: a frozen sandbox holds it up, and a sandbox that is out of memory
// takes it along. `sandbox`: a pidfd of the sandbox's process 1, `pid`: its number. The caller
// itself ends here; the process that returns, and the session's first process, are children of the
// caller's parent. What is made before an error stays: see Sessions::End.
Status BuildSession(const Host& host, uint32_t slot, int sandbox, pid_t pid,
                    const wire::MakeSession& message);

}  // namespace atl::spawner
