// The step of a build that attaches volumes to the new root.
#pragma once

#include "runtime/base/result.h"
#include "runtime/spawner/root/root_steps.h"

namespace atl::spawner {

// Targets are looked up as the sandbox will see them: links of the image are followed as if its
// root were "/", so they lead nowhere else. What is missing is made. Refused is whatever turns out,
// behind all links, to be the root itself or to lie on /proc, /sys or /dev. Buckets come last, when
// all of their targets are known: a path that leads into one has the store asked.
Status MountVolumes(RootState& state);

}  // namespace atl::spawner
