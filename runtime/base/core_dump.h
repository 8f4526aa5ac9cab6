// No image of this process is written when it crashes: its memory holds secrets.
#pragma once

#include "runtime/base/result.h"

namespace atl {

// Neither a core file nor a program behind a pipe (core_pattern) gets the memory, and of the
// others on the host only root may look into it (ptrace, /proc/PID/mem). Children inherit the
// limit. A change of user or capabilities takes the second half back, so call it behind those.
Status ForbidCoreDumps();

}  // namespace atl
