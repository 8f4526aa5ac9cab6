// The step of a build that attaches devices and volumes to the new root.
#pragma once

#include "runtime/base/result.h"
#include "runtime/spawner/root/root_steps.h"

namespace atl::spawner {

// Looks up each target as the sandbox will see it: links of the image are followed as if its root
// were "/", so they lead nowhere else. Makes what is missing. Refuses a target that is, behind all
// links, the root itself or lies on /proc, /sys or /dev. Attaches buckets last, when all of their
// targets are known, because a path that leads into a bucket asks its store.
Status MountVolumes(RootState& state);

}  // namespace atl::spawner
