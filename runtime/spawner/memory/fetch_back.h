// Reads the memory of a sandbox that goes on back from swap, in a process of its own, so that its
// programs need not wait for it page by page.
#pragma once

#include <sys/types.h>

#include <string>

#include "cgroup/tree.h"
#include "runtime/base/result.h"

namespace atl::spawner {

// Forks. The child ends by itself within seconds, and asks for what it can within bounds: the rest
// comes when it is touched. `first`: the process that is looked at first.
Result<pid_t> StartFetchBack(const cgroup::Tree& cgroups, const std::string& group, pid_t first);

}  // namespace atl::spawner
