// The usage of sandboxes. An extension of the OpenSandbox API.
//
//   GET /v1/usage?since&until&by=tenant|image|sandbox|label:KEY&step=1h
//     → {"items": [{"key", "cpu_seconds", …, "cost"?}], "prices"?, "unallocated"?, "complete"}
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/requests/usage_query.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/usage_json.h"

namespace atl::api {
namespace {

using tenants::kHourMs;

nlohmann::json PricesJson(const Prices& prices) {
  return {{"cpu_hour", prices.cpu_hour},
          {"cpu_reserved_hour", prices.cpu_reserved_hour},
          {"memory_gib_hour", prices.memory_gib_hour},
          {"memory_reserved_gib_hour", prices.memory_reserved_gib_hour},
          {"disk_gib_hour", prices.disk_gib_hour},
          {"network_gib", prices.network_gib},
          {"snapshots_gib_hour", prices.snapshots_gib_hour},
          {"parked_hour", prices.parked_hour}};
}

nlohmann::json AnswerJson(const tenants::UsageAnswer& answer, const tenants::UsageQuery& query,
                          const Prices& prices) {
  nlohmann::json items = nlohmann::json::array();
  for (const tenants::UsageRow& row : answer.rows) {
    nlohmann::json item = UsageJson(row.amounts, prices);
    item["key"] = row.key;
    if (!row.record.empty()) item["record"] = row.record;
    if (query.step_hours != 0) {
      item["start"] = FormatTime(row.started_ms);
      item["end"] = FormatTime(row.started_ms + query.step_hours * kHourMs);
    }
    items.push_back(std::move(item));
  }
  nlohmann::json told = {{"since", FormatTime(query.since_ms)},
                         {"until", FormatTime(query.until_ms)},
                         {"items", std::move(items)},
                         {"complete", answer.complete}};
  if (!prices.currency.empty()) {
    told["currency"] = prices.currency;
    told["prices"] = PricesJson(prices);
  }
  // The host's own use is no tenant's business.
  if (!query.owner) {
    told["unallocated"] = {
        {"cpu_seconds", Seconds(std::max<int64_t>(answer.unallocated_cpu_us, 0))},
        {"parked_seconds", Seconds(answer.unallocated_parked_us)}};
  }
  return told;
}

}  // namespace

void Api::AddUsageRoutes() {
  router_.Add("GET", "/usage", [this](const Call& call) {
    auto query = ParseUsageQuery(call.request().query(), SystemClock().UnixMillis());
    if (!query) return call.Respond(std::move(query).error());
    if (!call.caller().sees_all) query->owner = call.caller().tenant;
    const std::optional<std::string> asker = query->owner;
    // An answer may read millions of rows, on the thread that also writes them.
    if (!usage_askers_.insert(asker).second) {
      return call.Respond(
          ApiError{429, "SANDBOX::TOO_MANY", "the ledger of usage is being asked already", 1});
    }
    parts_.sandboxes.meter.Query(*query, [this, call, asker, query = *query](auto answer) {
      usage_askers_.erase(asker);
      if (!answer) return call.Respond(MapError(answer.error(), Doing::kUsage));
      call.Respond(JsonResponse(200, AnswerJson(*answer, query, config_.prices)));
    });
  });
}

}  // namespace atl::api
