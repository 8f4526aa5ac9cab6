// Common to all guards: the start and end of the first process of a slot, whatever wall it starts.
//
// Thread rule: for a process with one thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::guard {

// Exit code of a guard that could not start its sandbox.
inline constexpr int kCannotStart = 126;

// Takes the pass of the filter (start.h) out of the gate, which a guard has no use for. False:
// there is none.
bool TakePass();

// Waits, after TakePass, until the root of the image is there. False: it will never come.
bool PassGate();

// Tells the daemon, on the control socket, that execd will never start. Only as long as nobody else
// writes there.
void TellFailure(std::string_view tier, const Error& error);

// Leaves this process, and what it starts, the capabilities of `mask`.
Status KeepCapabilities(uint64_t mask);

}  // namespace atl::guard
