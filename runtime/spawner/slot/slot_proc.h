// /proc of a slot, in its own tree (slot_mounts.h): mounted, then masked. Call in the first process
// of the pid namespace.
#pragma once

#include "runtime/base/result.h"

namespace atl::spawner {

Status MountProc();
// Sets the defaults of the caller's network namespace. `sysctls`: /proc/sys, not yet read-only.
Status SetNetworkDefaults(int sysctls);
// Hides or makes read-only what OCI runtimes do in /proc; for /sys see slot_mounts.cc. Files that
// are closed to others anyway stay as they are, unless they belong to `owner`, the root of
// the sandbox. `empty_directory`: a mount that covers directories.
Status MaskProc(const char* empty_directory, uid_t owner);

// Mounts `streams` over /proc/1/fd, because /proc shows nothing of execd. The standard streams of
// the sandbox's program are found there (`> /proc/1/fd/1`).
Status CoverDescriptors(const char* streams);

}  // namespace atl::spawner
