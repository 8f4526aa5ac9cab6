#include "runtime/tenants/tenant_table.h"

#include <utility>

namespace atl::tenants {

SharedTenant TenantTable::Find(const std::string& name) const {
  const auto found = tenants_.find(name);
  return found == tenants_.end() ? nullptr : found->second;
}

std::vector<SharedTenant> TenantTable::All() const {
  std::vector<SharedTenant> all;
  all.reserve(tenants_.size());
  for (const auto& [name, tenant] : tenants_) all.push_back(tenant);
  return all;
}

void TenantTable::Replace(std::vector<Tenant> tenants) {
  std::map<std::string, SharedTenant> next;
  for (Tenant& tenant : tenants) {
    std::string name = tenant.name;
    next.emplace(std::move(name), std::make_shared<const Tenant>(std::move(tenant)));
  }
  next.insert(added_.begin(), added_.end());
  tenants_.swap(next);
  enabled_ = true;
}

bool TenantTable::Add(Tenant tenant) {
  if (added_.size() >= kMostAdded) return false;
  const std::string name = tenant.name;
  const auto shared = std::make_shared<const Tenant>(std::move(tenant));
  added_.emplace(name, shared);
  tenants_.emplace(name, shared);
  return true;
}

}  // namespace atl::tenants
