#include "runtime/base/core_dump.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "runtime/base/resource_limit.h"

namespace atl {

Status ForbidCoreDumps() {
  // The kernel ignores a limit of 0 where core_pattern is a pipe, and takes 1 as "no dump".
  ATOLL_TRY(LimitResource(RLIMIT_CORE, 1));
  // Whoever changes its ids gets fs.suid_dumpable instead, which is 2 where systemd-coredump is.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return FailSys("prctl PR_SET_DUMPABLE");
  return {};
}

}  // namespace atl
