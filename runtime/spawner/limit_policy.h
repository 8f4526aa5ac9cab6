// The spawner's own word about limits.
#pragma once

#include "runtime/base/result.h"
#include "runtime/spawner/host.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {

// kInvalidArgument: below what execd needs to run, or none of memory, processes or processor time
// where this host can keep one. The daemon always has one to send (its defaults are none of 0), so
// one that sends none has been taken over, and a sandbox without them would take all the host has.
// A limit on disk is an operator's choice, and swap and io have none by default.
Status CheckLimits(const Host& host, const wire::Limits& limits);

}  // namespace atl::spawner
