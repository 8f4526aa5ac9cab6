// The gate of runtime/wire/start.h, from execd's side: there the image's root comes under its feet.
#pragma once

#include <cstdint>

#include "runtime/base/result.h"

namespace atl::execd {

// Blocks until the gate opens, then, for `enter_root`, stands in the root that was mounted over the
// one execd was started in, and gives CAP_SYS_CHROOT away, if it has that for this alone. Returns
// the pass that the sandbox's filter asks for; without `has_pass` there is neither filter nor
// pass: 0. kUnavailable: the gate will never open. After any other error the process may not go on:
// it stands in the slot's tree. Before the first thread and the first child, which would keep the
// old root.
Result<uint64_t> PassGate(bool has_pass, bool enter_root);

}  // namespace atl::execd
