// /proc of a slot, in its own tree (slot_mounts.h): mounted, then masked. For the process that is
// its pid namespace's first.
#pragma once

#include "runtime/base/result.h"

namespace atl::spawner {

Status MountProc();
// Of the network namespace of whoever asks; `sysctls`: /proc/sys, not yet read-only.
Status SetNetworkDefaults(int sysctls);
// What OCI runtimes hide or make read-only in it; of /sys: slot_mounts.cc. What is closed to others
// anyway stays as it is: its owner is no id of the sandbox. `empty_directory`: a mount that covers
// theirs.
Status MaskProc(const char* empty_directory);

// Puts `streams` in the place of /proc/1/fd: execd, whom /proc shows nothing of, has the standard
// streams of the sandbox's program there (`> /proc/1/fd/1`).
Status CoverDescriptors(const char* streams);

}  // namespace atl::spawner
