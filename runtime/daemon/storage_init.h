// `atolld storage init`: makes a store that enforces disk limits, for a data directory whose file
// system does not. runtime/spawner/store/store_image.h describes the result.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

// Call as root. `size` in the syntax of resourceLimits; empty: half of the free space. Reports on
// standard output; an existing store is not an error. kFailedPrecondition: a daemon or a spawner
// runs, or the store has content.
Status InitStorage(const Config& config, const std::string& size);

}  // namespace atl::daemon
