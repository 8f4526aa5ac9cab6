// The spawner's own word about limits.
#pragma once

#include <string>
#include <vector>

#include "cgroup/limits.h"
#include "runtime/base/result.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// Keys of cgroup::kLimitFields.
std::vector<std::string> KeptLimits(const Host& host);

// kInvalidArgument: out of the field's bounds, or none of a required one where this host can keep
// it. The daemon always has one to send (its defaults are none of 0), so one that sends none has
// been taken over, and a sandbox without them would take all the host has. A limit on disk is an
// operator's choice, and swap and io have none by default.
Status CheckLimits(const Host& host, const cgroup::Limits& limits);

// kInvalidArgument: one that is asked for and that this host cannot keep.
Status CheckKept(const Host& host, const cgroup::Limits& limits);

// Of `limits` those that this host can keep.
cgroup::Limits OnlyKept(const Host& host, const cgroup::Limits& limits);

}  // namespace atl::spawner
