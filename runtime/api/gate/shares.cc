#include "runtime/api/gate/shares.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace atl::api {
namespace {

std::string RateText(double rate) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, rate).ptr};
}

}  // namespace

tl::expected<Shares::Place, ApiError> Shares::Enter(const tenants::Caller& caller) {
  if (!tenants_.enabled()) return Place();
  const tenants::SharedTenant tenant = tenants_.Find(caller.tenant);
  if (tenant == nullptr) return Place();
  if (auto taken =
          Take(requests_, caller, &tenants::Quota::requests_per_second, "requests_per_second", 1);
      !taken) {
    return tl::unexpected(std::move(taken).error());
  }
  return Hold(caller.tenant);
}

tl::expected<Shares::Place, ApiError> Shares::Hold(const std::string& tenant) {
  if (!tenants_.enabled() || tenant.empty()) return Place();
  const auto known = in_flight_->tenants.find(tenant);
  const size_t own = known == in_flight_->tenants.end() ? 0 : known->second;
  if (limit_ != 0 && in_flight_->all >= limit_ && own >= ShareOf(tenant)) {
    ++refused_;
    return tl::unexpected(ApiError{503, "GENERAL::OVERLOADED",
                                   "tenant " + tenant + " has " + std::to_string(own) +
                                       " requests in flight, its share of "
                                       "server.limit_concurrency: come again later",
                                   1});
  }
  ++in_flight_->tenants[tenant];
  ++in_flight_->all;
  // The pointer is not null, and only its deleter matters.
  return Place(in_flight_.get(), [in_flight = in_flight_, name = tenant](const void*) {
    const auto found = in_flight->tenants.find(name);
    --in_flight->all;
    if (--found->second == 0) in_flight->tenants.erase(found);
  });
}

size_t Shares::ShareOf(const std::string& tenant) const {
  const auto weight_of = [this](const std::string& name) -> uint64_t {
    const tenants::SharedTenant found = tenants_.Find(name);
    return found ? found->weight : 1;
  };
  uint64_t others = 0;
  for (const auto& [name, count] : in_flight_->tenants) {
    if (name != tenant) others += weight_of(name);
  }
  if (others == 0) return limit_;
  const uint64_t weight = weight_of(tenant);
  return std::max<size_t>(1, limit_ * weight / (others + weight));
}

tl::expected<void, ApiError> Shares::CountCreates(const tenants::Caller& caller, size_t count) {
  return Take(creates_, caller, &tenants::Quota::creates_per_second, "creates_per_second",
              static_cast<double>(count));
}

tl::expected<void, ApiError> Shares::Take(tenants::Rates& rates, const tenants::Caller& caller,
                                          double tenants::Quota::*rate, const char* name,
                                          double count) {
  if (!tenants_.enabled()) return {};
  const tenants::SharedTenant tenant = tenants_.Find(caller.tenant);
  if (tenant == nullptr) return {};
  const double limit = tenant->max.*rate;
  const double narrowed = caller.narrowing ? caller.narrowing->max.*rate : 0;
  // A key that is narrower than its tenant has a bucket of its own, beside the tenant's.
  const std::string of_key = narrowed > 0 ? caller.tenant + "/" + caller.key_id : "";
  if (narrowed > 0) {
    if (const int wait_s = rates.Take(of_key, narrowed, count)) {
      return tl::unexpected(ApiError{429, "SANDBOX::TOO_MANY",
                                     "the limit " + std::string(name) + " of this key is " +
                                         RateText(narrowed) + "; come again later",
                                     wait_s});
    }
  }
  const int wait_s = rates.Take(caller.tenant, limit, count);
  if (wait_s == 0) return {};
  if (narrowed > 0) rates.GiveBack(of_key, count);
  return tl::unexpected(ApiError{429, "SANDBOX::TOO_MANY",
                                 "the quota " + std::string(name) + " of tenant " + caller.tenant +
                                     " is " + RateText(limit) + "; come again later",
                                 wait_s});
}

}  // namespace atl::api
