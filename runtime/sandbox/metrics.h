// What the operator may want to watch, as lines of the Prometheus text format.
#pragma once

#include <string>

#include "netpolicy/network.h"
#include "runtime/base/health.h"
#include "runtime/sandbox/admission.h"
#include "runtime/sandbox/lifecycle.h"
#include "runtime/sandbox/slot_pool.h"

namespace atl::sandbox {

std::string MetricsText(const Lifecycle& lifecycle, const Admission& admission,
                        const SlotPool& slots, const netpolicy::Network& network,
                        const Health& health);

}  // namespace atl::sandbox
