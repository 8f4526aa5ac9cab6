// Checks of the limits that the daemon asks for.
#pragma once

#include <string>
#include <vector>

#include <string_view>

#include "cgroup/limits.h"
#include "runtime/base/result.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// Returns the limits that this host can keep, as keys of cgroup::kLimitFields.
std::vector<std::string> KeptLimits(const Host& host);

// kInvalidArgument: a limit is outside the bounds of its field, or 0 although it is required and
// this host can keep it. The daemon has a default above 0 for each required limit, so a daemon that
// sends 0 has been taken over, and a sandbox without that limit could take all of the host. Disk,
// swap and io are not required: a limit on disk is the operator's choice, the other two have no
// default.
Status CheckLimits(const Host& host, const cgroup::Limits& limits);

// kInvalidArgument: this host cannot keep a limit that is asked for.
Status CheckKept(const Host& host, const cgroup::Limits& limits);

// Returns `limits` without those that this host cannot keep.
cgroup::Limits OnlyKept(const Host& host, const cgroup::Limits& limits);

// Returns the limits of a slot's cgroup for a sandbox of these limits: what the wall of its tier
// takes comes on top.
cgroup::Limits WithOverhead(std::string_view tier, cgroup::Limits limits);

}  // namespace atl::spawner
