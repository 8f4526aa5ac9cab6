// The machine's network, which a slot of the namespace tier has in its namespace.
#pragma once

#include "runtime/base/result.h"
#include "runtime/wire/vm.h"

namespace atl::guest {

// Brings up lo, and eth0 with its addresses, routes and neighbours. Without a MAC, lo alone.
// Refuses an eth0 that has another MAC than Go says.
Status SetUpNetwork(const wire::vm::Go& go);

}  // namespace atl::guest
