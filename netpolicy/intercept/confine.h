// Drops all privileges that the interceptor no longer needs.
#pragma once

#include "runtime/base/result.h"

namespace atl::intercept {

// Confines the process: from here on it can only read and write the descriptors that it has and
// those that arrive over its line. It cannot open a file, make a socket, start, trace or signal a
// process, or make memory executable. Everything that needs a file must have been read before.
// Needs no_new_privs and a process with one thread.
Status Confine();

}  // namespace atl::intercept
