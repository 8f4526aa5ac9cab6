// The system calls of the machine's monitor: those that QEMU makes with the devices of qemu.cc, and
// no others. It makes threads but no processes, opens no socket, and starts no program.
#pragma once

#include "runtime/base/result.h"

namespace atl::guard {

// Becomes the program argv[0] behind the filter. Returns only with an error.
Status ExecuteMonitor(char* const argv[], char* const envp[]);

}  // namespace atl::guard
