// The system calls that a job needs; any other ends the process at once.
#pragma once

#include "images/unpack/confine.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

Status LoadSyscallFilter(Job job);

}  // namespace atl::images::unpack
