// The terms of a tenant: what its entry in the table of tenants lets it have and do, ready to be
// checked. The narrowing of a key may take more away.
//
// Refusals carry kByTerms as their errno, so that the API tells them from those of the operator.
//
// Thread rule: on the loop.
#pragma once

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/policy/ceiling.h"
#include "runtime/base/result.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/tenant.h"
#include "runtime/tenants/tenant_table.h"

namespace atl::sandbox {

// The errno of refusals by the terms of a tenant. With kResourceExhausted: its quota (quotas.h).
// With kPermissionDenied: something that it may not do. No system call of the daemon fails so.
inline constexpr int kByTerms = EUSERS;

struct Terms {
  std::string tenant;
  tenants::Quota max;
  std::vector<std::string> images;      // rules of images/allowed.h; none: all
  std::vector<std::string> key_images;  // further rules, of the caller's key; none: all
  netpolicy::SharedCeiling ceiling;     // null: none
  bool policy_locked = false;

  // kPermissionDenied: the tenant or the key may not use the image. An empty `digest` means that it
  // is not known yet.
  Status CheckImage(const std::string& name, std::string_view digest) const;
  // `seconds`: lifetime from now on; none: until deletion. kPermissionDenied: longer than allowed.
  Status CheckLifetime(std::optional<int64_t> seconds) const;
  // kPermissionDenied: the policy allows more than the ceiling. Null is the operator's default.
  Status CheckPolicy(const netpolicy::SharedPolicy& policy) const;
  // kPermissionDenied: rules bind the images of the tenant or of the key. They go by names, so who
  // gives names to contents could use any contents.
  Status CheckMakesImages() const;
};
// Null: no terms. Everything that belongs to the host, and a daemon without tenants, has none.
using SharedTerms = std::shared_ptr<const Terms>;

// Makes the terms of a tenant. kInvalidArgument names the rule of its images, or the target of its
// ceiling, that cannot be read.
Result<SharedTerms> MakeTerms(const tenants::Tenant& tenant);

class TermsTable {
 public:
  // `table` outlives this object.
  explicit TermsTable(const tenants::TenantTable& table) : table_(table) {}
  TermsTable(const TermsTable&) = delete;
  TermsTable& operator=(const TermsTable&) = delete;

  // Returns the terms for what `owner` has. The terms of a tenant that is gone from the table, or
  // that cannot be read, allow nothing new.
  SharedTerms Of(const std::string& owner) const;
  // Like Of, within the narrowing of the caller's key.
  SharedTerms Of(const std::string& owner, const tenants::Caller& caller) const;
  // See Terms::CheckMakesImages. Callers without terms may make images.
  Status CheckMakesImages(const tenants::Caller& caller) const;

 private:
  struct Made {
    tenants::SharedTenant of;
    SharedTerms terms;
  };

  const tenants::TenantTable& table_;
  mutable std::map<std::string, Made> made_;  // replaced when the table has a new entry
};

}  // namespace atl::sandbox
