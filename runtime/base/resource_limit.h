// Limits of a process on itself.
#pragma once

#include <sys/resource.h>

#include "runtime/base/result.h"

namespace atl {

// Sets the soft and the hard limit of `resource` to `most`, or to the present hard limit if that is
// lower: without CAP_SYS_RESOURCE nobody gets more than the host allows, and less is what a limit
// is for.
Status LimitResource(__rlimit_resource resource, rlim_t most);

}  // namespace atl
