// Takes everything away from the interceptor that it needs no more.
#pragma once

#include "runtime/base/result.h"

namespace atl::intercept {

// From here on the process can read and write the descriptors that it has and those that come over
// its line, and do nothing else: no file can be opened, no socket made, no process started, traced
// or signalled, no memory made code. Whatever needs a file has to have been read before. Needs
// no_new_privs; for a process of one thread.
Status Confine();

}  // namespace atl::intercept
