// /dev of a sandbox or an isolated session: a tmpfs of its own with the six harmless nodes, so that
// root inside can bind /dev/log and make pipes, links and files, as under runc. Nobody inside can
// make a node: that asks for CAP_MKNOD in the host's user namespace. The image has no part in it:
// whatever it holds at /dev is covered, and /dev/null, which masks files of /proc, is taken from
// here, never from a path (CVE-2025-31133).
#pragma once

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

// Mounts one at `target` (an O_PATH descriptor of a directory) with empty directories for pts, shm
// and mqueue. All of it belongs to the caller's file system ids (ActAs). Returns the mount. Needs
// CAP_MKNOD.
Result<UniqueFd> MountDeviceNodes(int target);

}  // namespace atl::spawner
