// Turns the first SIGINT, SIGTERM or SIGHUP into a readable descriptor, so that a verb can undo its
// work. A second signal ends the process.
#pragma once

#include "runtime/base/result.h"

namespace atl::cli {

// Installs the handlers. The descriptor is valid for the life of the process.
Result<int> CatchInterrupts();
// Returns the caught signal, or 0.
int CaughtSignal();
// Waits for a signal; returns true if one came within that time.
bool WaitForInterrupt(int interrupt_fd, int milliseconds);

}  // namespace atl::cli
