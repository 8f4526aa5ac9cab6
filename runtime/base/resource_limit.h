// Limits of a process on itself.
#pragma once

#include <sys/resource.h>

#include "runtime/base/result.h"

namespace atl {

// Sets the soft and the hard limit of `resource` to `most`. If the hard limit is lower and this
// process may not raise it (CAP_SYS_RESOURCE), both become that limit: the host allows no more, and
// a lower limit is still a limit.
Status LimitResource(__rlimit_resource resource, rlim_t most);

}  // namespace atl
