// The tenants of this daemon by name. A reload replaces all of them at once.
//
// Thread rule: on the loop.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/tenants/tenant.h"

namespace atl::tenants {

using SharedTenant = std::shared_ptr<const Tenant>;

class TenantTable {
 public:
  TenantTable() = default;
  TenantTable(const TenantTable&) = delete;
  TenantTable& operator=(const TenantTable&) = delete;

  // False: the daemon has no tenants, so everything belongs to the host, and nothing is limited by
  // tenant.
  bool enabled() const { return enabled_; }

  // Returns null for the host ("") and for a tenant that is gone. What a gone tenant owns stays; an
  // admin may delete it.
  SharedTenant Find(const std::string& name) const;
  // Returns all tenants, sorted by name.
  std::vector<SharedTenant> All() const;

  // Turns tenants on. The names differ. Tenants of Add stay.
  void Replace(std::vector<Tenant> tenants);
  // Adds a tenant that the provider has named and the file does not have. Returns false if there
  // are kMostAdded already.
  bool Add(Tenant tenant);
  static constexpr size_t kMostAdded = 4096;

 private:
  bool enabled_ = false;
  std::map<std::string, SharedTenant> tenants_;
  std::map<std::string, SharedTenant> added_;
};

}  // namespace atl::tenants
