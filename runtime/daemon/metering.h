// The meter's sources on this host, and the operator's prices.
#pragma once

#include "cgroup/host.h"
#include "runtime/api/routes/api.h"
#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/sandbox/usage/meter.h"
#include "runtime/wire/reply.h"

namespace atl::daemon {

// Opens the ledger, <data_dir>/state/usage.db, unless metering is off.
Result<sandbox::Meter::Sources> MeterSources(const Config& config, const wire::Greeting& hello,
                                             const cgroup::Host& host);

// The configuration has checked their form.
api::Prices PricesOf(const Config& config);

}  // namespace atl::daemon
