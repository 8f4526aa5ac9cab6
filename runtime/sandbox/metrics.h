// Adds the metrics of the sandboxes and of their host.
#pragma once

#include "images/image_store.h"
#include "netpolicy/network.h"
#include "runtime/base/health.h"
#include "runtime/base/metrics.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/host_watch.h"
#include "runtime/sandbox/sandboxes.h"

namespace atl::sandbox {

// `host`: null before the first sample. `quotas`: null if the store has none.
void AddMetrics(const Sandboxes& all, const Snapshots& snapshots, const Admission& admission,
                const SlotPool& slots, const netpolicy::Network& network,
                const images::ImageStore& images, const Health& health, const HostSample* host,
                const QuotaSample* quotas, MetricSet* metrics);

}  // namespace atl::sandbox
