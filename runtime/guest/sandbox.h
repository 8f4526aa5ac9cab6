// The sandbox in the machine: execd as process 1 of namespaces of its own, in the shared root.
#pragma once

#include <sys/types.h>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/guest/groups.h"
#include "runtime/wire/vm.h"

namespace atl::guest {

// Starts execd, whose root is mounted at kRootPath. Returns when execd runs, with its pid, or the
// error of the first step that failed. `sessions`: execd's end of the line on which it asks for
// isolated sessions.
Result<pid_t> StartSandbox(const wire::vm::Go& go, const Groups& groups, UniqueFd sessions);

}  // namespace atl::guest
