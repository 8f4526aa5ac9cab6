// The part of the daemon that each tenant may take: its share of the requests in flight, and its
// rates. Asked once a request's key is known.
//
// The limit of requests in flight is shared like the queue of builds (sandbox/create/admission.h):
// by weight among the tenants that have requests in flight. A tenant may go beyond its share while
// there is room, and may use its share even if others have taken it. Concurrency (concurrency.h)
// holds the sum within kOverShares times the limit. A request into a sandbox counts for the owner
// of the sandbox, until it is handed on: it may wait for the sandbox to be resumed.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "runtime/api/gate/api_error.h"
#include "runtime/base/clock.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/rates.h"
#include "runtime/tenants/tenant_table.h"

namespace atl::api {

// The factor by which requests in flight of all clients may exceed the limit, because a tenant gets
// its share after others have taken it.
inline constexpr size_t kOverShares = 4;

class Shares {
 public:
  // A place among the requests in flight. Given back when the last copy is gone.
  using Place = std::shared_ptr<const void>;

  // `limit`: requests in flight of all tenants; 0: no limit. All arguments outlive this object.
  Shares(const Clock& clock, const tenants::TenantTable& tenants, size_t limit)
      : tenants_(tenants), requests_(clock), creates_(clock), limit_(limit) {}
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  // Applies to later requests.
  void SetLimit(size_t limit) { limit_ = limit; }

  // Lets a request in. Null: the caller needs no place, as the host and a daemon without tenants.
  // The error is 429, or 503 for a tenant that has its share in flight.
  tl::expected<Place, ApiError> Enter(const tenants::Caller& caller);
  // Lets a request into a sandbox of that tenant in. See Enter; rates do not count such requests.
  tl::expected<Place, ApiError> Hold(const std::string& tenant);
  // Counts sandboxes that a request asks for. The error is 429.
  tl::expected<void, ApiError> CountCreates(const tenants::Caller& caller, size_t count);
  // Returns the number of requests that found their tenant's share taken.
  uint64_t refused() const { return refused_; }

 private:
  struct InFlight {
    std::map<std::string, size_t> tenants;  // no entry: none
    size_t all = 0;
  };

  size_t ShareOf(const std::string& tenant) const;
  tl::expected<void, ApiError> Take(tenants::Rates& rates, const tenants::Caller& caller,
                                    double tenants::Quota::*rate, const char* name, double count);

  const tenants::TenantTable& tenants_;
  tenants::Rates requests_;
  tenants::Rates creates_;
  size_t limit_;
  uint64_t refused_ = 0;
  // Shared with each place, because a request may outlive this object.
  std::shared_ptr<InFlight> in_flight_ = std::make_shared<InFlight>();
};

}  // namespace atl::api
