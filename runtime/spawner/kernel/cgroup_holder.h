// Keeps a delegated cgroup alive. systemd removes the cgroup of a unit without processes, and the
// cgroup of the sandboxes must exist before the first of them and after the last.
#pragma once

#include "runtime/base/result.h"

namespace atl::spawner {

// Moves this process into a child cgroup, "holder", of its own cgroup (v2 forbids processes beside
// child groups with limits), notifies systemd, and waits to be killed. Returns only with an error.
// On a host without controllers on v2 the process stays where it is.
Status HoldCgroup();

}  // namespace atl::spawner
