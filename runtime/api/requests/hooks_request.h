// The member `lifecycle` of POST /sandboxes: programs that run beside the entrypoint.
#pragma once

#include <vector>

#include "runtime/api/gate/validation.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

// Adds a problem for each error, unknown members included: a hook lost to a misspelt word would be
// noticed only later.
std::vector<wire::Hook> ReadHooks(const Field& lifecycle);

}  // namespace atl::api
