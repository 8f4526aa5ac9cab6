// Starts the interceptors of sandboxes with a credential vault (netpolicy/intercept). Such a
// process works for one sandbox, so the kernel charges it to the sandbox's group: its processor
// time is within the sandbox's limit, it is frozen and killed with the sandbox, and metered with
// it. Nothing else of it is in the sandbox: it has the host's namespaces and the daemon's user.
#pragma once

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// `line`: the interceptor's end of a Unix socket (netpolicy/intercept/line.h); borrowed. Returns
// the pidfd of the process, which may not have executed its program yet. kPermissionDenied: `line`
// is something else. Does not wait, because a process of a frozen group never gets that far.
Result<UniqueFd> StartInterceptor(const Host& host, uint32_t slot, int line);

}  // namespace atl::spawner
