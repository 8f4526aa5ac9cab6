// Metrics of this process, with the names of Prometheus's own libraries.
#pragma once

#include "runtime/base/metrics.h"

namespace atl::daemon {

// Adds the metrics. Reads /proc, which takes some ten microseconds.
void AddProcessMetrics(MetricSet* metrics);

}  // namespace atl::daemon
