// The isolated sessions of the machine's sandbox. A process beside the init makes and ends them, as
// the sandbox's execd asks (runtime/wire/session.h): the guest does what the spawner does for a
// sandbox of namespaces.
#pragma once

#include <sys/types.h>

#include "cgroup/tree.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/vm.h"

namespace atl::guest {

// Starts that process. It ends when execd closes its end of `line`, a stream socket. `execd`: a
// child of the caller. Overlays of sessions keep what is written in kSessionsPath (shares.h).
Status StartSessions(const wire::vm::Go& go, const cgroup::Tree& cgroups, UniqueFd line,
                     pid_t execd);

}  // namespace atl::guest
