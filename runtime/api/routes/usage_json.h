// Amounts of usage as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "runtime/api/routes/api.h"
#include "runtime/tenants/usage/amounts.h"

namespace atl::api {

double Seconds(int64_t micros);
// Returns the amounts in seconds, GiB and bytes, and what they cost if there are prices.
nlohmann::json UsageJson(const tenants::Amounts& used, const Prices& prices);

}  // namespace atl::api
