// Reads the memory of a resumed sandbox back from swap, in a process of its own, so that its
// programs need not wait for each page.
#pragma once

#include <sys/types.h>

#include <string>

#include "cgroup/tree.h"
#include "runtime/base/result.h"

namespace atl::spawner {

// Forks. The child ends by itself within seconds. It asks for the memory within bounds; the rest is
// read when a program touches it. `first`: the process to begin with.
Result<pid_t> StartFetchBack(const cgroup::Tree& cgroups, const std::string& group, pid_t first);

}  // namespace atl::spawner
