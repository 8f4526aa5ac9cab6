// The metrics of this process, under the names that Prometheus's own libraries use.
#pragma once

#include "runtime/base/metrics.h"

namespace atl::daemon {

// Seconds since the Unix epoch at which the kernel started this process; 0: it does not tell.
double ProcessStartSeconds();

// Reads /proc, which takes some ten microseconds.
void AddProcessMetrics(MetricSet* metrics);

}  // namespace atl::daemon
