// What the operator may want to watch, as lines of the Prometheus text format.
#pragma once

#include <string>

#include "runtime/base/health.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {

std::string MetricsText(const Lifecycle& lifecycle, const Health& health);

}  // namespace atl::sandbox
