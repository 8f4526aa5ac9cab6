// The limits of a parked sandbox that no cgroup holds. A build sets them on its way to the root
// (root_steps.h). A claim with other limits changes them afterwards, when the root covers the
// slot's tree.
#pragma once

#include "runtime/base/result.h"
#include "runtime/spawner/root/root_steps.h"

namespace atl::cgroup {
struct Limits;
}

namespace atl::spawner {

// Changes open files, the size of /dev/shm, and the text of /sys/devices/system/cpu/online, as far
// as they differ. No program of the sandbox has run yet, so the paths in it are those of its build.
// Returns within kVforkSeconds. The caller reaps the child. kFailedPrecondition: the sandbox has an
// open-file limit of its own, and only privilege that the spawner may lack could lift it.
Status LimitParked(const FirstProcess& first, const cgroup::Limits& now,
                   const cgroup::Limits& next);

}  // namespace atl::spawner
