// The new mount API (Linux 5.2 and 5.12) as Results. Every call works on descriptors, so no path
// can change its meaning between check and use.
#pragma once

#include <sys/mount.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

inline constexpr uint64_t kNoSuidDev = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
inline constexpr uint64_t kNoSuidDevExec = kNoSuidDev | MOUNT_ATTR_NOEXEC;

using MountOptions = std::vector<std::pair<const char*, std::string>>;

// Makes a new, detached file system instance. `attributes` are MOUNT_ATTR_*.
Result<UniqueFd> NewMount(const char* type, const MountOptions& options, uint64_t attributes);
// Returns a detached copy of the mount at dirfd/path (path may be ""), with all mounts beneath it
// if `recursive`.
Result<UniqueFd> CloneMount(int dirfd, const char* path, bool recursive);
// Adds attributes to a detached mount, and id-maps it through `user_namespace` unless that is -1.
// `propagation`: MS_PRIVATE and the like; 0 leaves it.
Status SetMountAttributes(int mount, uint64_t set, int user_namespace, bool recursive,
                          uint64_t propagation = 0);
// Checks that overlayfs has not mounted `overlay` (any descriptor of its root, or of the detached
// mount) read-only without being asked. overlayfs does so, and tells only the kernel's log, when it
// cannot make its work directory, as on a store that is full for a moment. The mount would stay
// read-only for life. kResourceExhausted with ENOSPC: it did. Costs one call.
Status CheckWritableOverlay(int overlay);
// Attaches a detached mount to `target` (an O_PATH descriptor).
Status Attach(int mount, int target, const char* what);

}  // namespace atl::spawner
