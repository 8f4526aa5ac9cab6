// Refusals by the quota of a tenant, and the checks that lead to them. What counts against a quota
// is the sum over the objects that exist, so a restart counts again from the records.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/terms.h"

namespace atl::sandbox {

// One exceeded quota, as the API shows it.
struct QuotaRefusal {
  std::string quota;  // name of the quota: "memory"
  std::string limit;  // "32Gi"
  std::string used;
  std::string asked;  // the amount of the request; "unlimited": a sandbox without such a limit

  bool operator==(const QuotaRefusal&) const = default;
};
// Makes the error of a refusal: kResourceExhausted with kByTerms.
Error QuotaError(const std::string& tenant, const QuotaRefusal& refusal);
// Reads the refusal from an error that QuotaError made. Nothing for other errors.
std::optional<QuotaRefusal> QuotaRefusalOf(const Error& error);

// The objects of a tenant, in the units of its quota.
struct Owned {
  uint64_t sandboxes = 0;
  uint64_t cpu_millis = 0;
  uint64_t memory_bytes = 0;
  uint64_t disk_bytes = 0;  // limits of sandboxes and volumes
  uint64_t gpus = 0;
  uint64_t volumes = 0;
  uint64_t snapshots = 0;
  uint64_t pools = 0;

  bool operator==(const Owned&) const = default;
  Owned& operator+=(const Owned& other);
  Owned& operator-=(const Owned& other);
};

// Returns `count` times that; UINT64_MAX where the product overflows.
Owned Times(const Owned& each, uint64_t count);

// Each checks whether the tenant may have one more of something beside what it has. A null `terms`
// allows everything.
Status CheckSandboxQuota(const SharedTerms& terms, const Owned& owned, const Owned& asked);
Status CheckVolumeQuota(const SharedTerms& terms, const Owned& owned, uint64_t disk_bytes);
Status CheckSnapshotQuota(const SharedTerms& terms, const Owned& owned);
Status CheckPoolQuota(const SharedTerms& terms, const Owned& owned);
// Checks whether the tenant could have so many sandboxes of that size, if it had nothing else.
Status CheckPoolSize(const SharedTerms& terms, uint64_t members, const Owned& each);

}  // namespace atl::sandbox
