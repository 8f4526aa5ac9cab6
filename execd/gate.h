// execd's side of the gate (runtime/wire/start.h), at which execd waits for its root.
#pragma once

#include <cstdint>

#include "runtime/base/result.h"

namespace atl::execd {

// Blocks until the gate opens. With `enter_root`, then enters the root that was mounted over the
// one execd was started in, and drops CAP_SYS_CHROOT if execd has it only for this. Returns the
// pass that the sandbox's seccomp filter asks for, or 0 without `has_pass`, which means that there
// is no filter.
//
// kUnavailable: the gate will never open. After any other error the process must exit, because its
// root is still the slot's tree. Call before the first thread and the first child, which would keep
// the old root.
Result<uint64_t> PassGate(bool has_pass, bool enter_root);

}  // namespace atl::execd
