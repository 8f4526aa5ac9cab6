// /dev of a sandbox or an isolated session: a tmpfs of its own with the six harmless nodes, so that
// root inside can bind /dev/log and make pipes, links and files, as under runc. Nobody inside can
// make a node, because that needs CAP_MKNOD in the host's user namespace. The image has no
// influence: its own /dev is covered, and the /dev/null that masks files of /proc is taken from
// here, never from a path (CVE-2025-31133).
#pragma once

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

// Mounts a /dev at `target` (an O_PATH descriptor of a directory) with empty directories for pts,
// shm and mqueue. Everything in it belongs to the caller's file system ids (ActAs). Returns the
// mount. Needs CAP_MKNOD.
Result<UniqueFd> MountDeviceNodes(int target);

}  // namespace atl::spawner
