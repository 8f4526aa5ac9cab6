// Installs the filter of system calls for a job. Any other call kills the process.
#pragma once

#include "images/unpack/confine.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

Status LoadSyscallFilter(Job job);

}  // namespace atl::images::unpack
