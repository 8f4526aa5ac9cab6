// `atolld storage init`: makes a store that enforces disk limits, for a data directory whose file
// system does not. See runtime/spawner/store_image.h for what becomes of it.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

// As root. `size` as in resourceLimits; empty: half of what is free. Says on standard output what
// it has done; a store that is there already is no error. kFailedPrecondition: a daemon or a
// spawner runs, or the store has content.
Status InitStorage(const Config& config, const std::string& size);

}  // namespace atl::daemon
