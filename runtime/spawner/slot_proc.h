// /proc of a slot, in its own tree (slot_mounts.h): mounted, then masked. For the process that is
// its pid namespace's first.
#pragma once

#include "runtime/base/result.h"

namespace atl::spawner {

Status MountProc();
// What OCI runtimes hide or make read-only in it.
Status MaskProc();

}  // namespace atl::spawner
