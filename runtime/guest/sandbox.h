// The sandbox in the machine: execd as process 1 of namespaces of its own, in the shared root.
#pragma once

#include <sys/types.h>

#include "runtime/base/result.h"
#include "runtime/wire/vm.h"

namespace atl::guest {

// Starts execd, whose root is mounted at kRootPath. Returns when execd runs, with its pid, or the
// error of the first step that failed.
Result<pid_t> StartSandbox(const wire::vm::Go& go);

}  // namespace atl::guest
