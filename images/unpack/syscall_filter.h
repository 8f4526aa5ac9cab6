// The system calls that unpacking needs; any other ends the process at once.
#pragma once

#include "runtime/base/result.h"

namespace atl::images::unpack {

Status LoadSyscallFilter();

}  // namespace atl::images::unpack
