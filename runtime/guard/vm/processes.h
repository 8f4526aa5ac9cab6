// The processes that a machine consists of beside the guard. They see kMachineRoot
// (wire/machine.h) as their root.
//
// Thread rule: for a process with one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::guard {

// QEMU runs as this user of the slot, to whom nothing in the slot belongs.
inline constexpr uid_t kMonitorId = 65535;

struct Process {
  std::string program;                 // absolute, beneath kMachineRoot
  std::vector<std::string> arguments;  // after argv[0]
  std::vector<int> descriptors;        // kept open under their numbers
  int console = -1;                    // standard output and errors
  uint64_t capabilities = 0;           // it is root of the slot with these
  bool monitor = false;  // it is kMonitorId, without a capability, with the monitor's filter
};

Result<pid_t> Start(const Process& process);

}  // namespace atl::guard
