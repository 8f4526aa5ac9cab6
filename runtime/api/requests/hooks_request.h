// The member `lifecycle` of POST /sandboxes: programs that are run beside the entrypoint.
#pragma once

#include <vector>

#include "runtime/api/gate/validation.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

// What is wrong with it is complained about: unknown members too, because a hook that is left out
// for a misspelt word would be missed only later.
std::vector<wire::Hook> ReadHooks(const Field& lifecycle);

}  // namespace atl::api
