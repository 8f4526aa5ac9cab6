// The query of GET /usage.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/tenants/usage/ledger.h"

namespace atl::api {

// Without `since`, the last 24 hours. A step is a number of hours or days, "1h" or "7d", and a
// query has at most kMaxSteps of them.
inline constexpr int64_t kMaxSteps = 1000;
Parsed<tenants::UsageQuery> ParseUsageQuery(std::string_view query, int64_t now_ms);

}  // namespace atl::api
