// Keeps a delegated cgroup in being: systemd removes the one of a unit that has no process, and the
// one that sandboxes live in must be there before the first of them and after the last.
#pragma once

#include "runtime/base/result.h"

namespace atl::spawner {

// Moves this process into a leaf, "holder", of the cgroup that it was started in (v2 forbids
// processes beside child groups with limits), says so to systemd, and waits to be killed. Only
// returns with an error. On a host without controllers on v2 it stays where it is.
Status HoldCgroup();

}  // namespace atl::spawner
