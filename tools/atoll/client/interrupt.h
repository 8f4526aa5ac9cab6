// Turns the first SIGINT, SIGTERM or SIGHUP into a readable descriptor, so that what was begun can
// be undone. A second one ends the process as usual.
#pragma once

#include "runtime/base/result.h"

namespace atl::cli {

// Installs the handlers; the descriptor lives for ever.
Result<int> CatchInterrupts();
// The signal that came, or 0.
int CaughtSignal();
// Whether one came within that time.
bool WaitForInterrupt(int interrupt_fd, int milliseconds);

}  // namespace atl::cli
