#include "runtime/base/core_dump.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "runtime/base/resource_limit.h"

namespace atl {

Status ForbidCoreDumps() {
  // If core_pattern is a pipe, the kernel ignores a limit of 0 but treats 1 as "no dump".
  ATOLL_TRY(LimitResource(RLIMIT_CORE, 1));
  // The kernel resets this flag to fs.suid_dumpable when ids change, and systemd-coredump sets that
  // to 2.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return FailSys("prctl PR_SET_DUMPABLE");
  return {};
}

}  // namespace atl
