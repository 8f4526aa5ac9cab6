// Prevents core dumps of processes whose memory holds secrets.
#pragma once

#include "runtime/base/result.h"

namespace atl {

// After this call neither a core file nor a program behind a pipe (core_pattern) gets the memory of
// this process, and only root may inspect it (ptrace, /proc/PID/mem). Children inherit only the
// limit. A change of user or capabilities undoes the protection against inspection, so call it
// after those.
Status ForbidCoreDumps();

}  // namespace atl
