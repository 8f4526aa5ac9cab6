// Makes one isolated session of a sandbox: group, uppers, namespaces, and in them an execd.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/wire/request.h"

namespace atl::spawner {

// Below the sandbox's own run/, so that its limits, its freezer and its end are the session's too.
std::string SessionGroup(uint32_t slot, uint32_t number);

// In a process of its own, which a sandbox may hold up for as long as it stands still, or take with
// it when it is out of memory. `sandbox`: a pidfd of its process 1, and its number. The session's
// first process is a child of the caller's parent, and so is who returns: the caller itself ends.
// What is made before an error stays: see Sessions::End.
Status BuildSession(const Host& host, uint32_t slot, int sandbox, pid_t pid,
                    const wire::MakeSession& message);

}  // namespace atl::spawner
