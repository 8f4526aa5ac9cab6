// The holder of a key, once the key has been checked: which tenant, which role, and what the key
// may do less than its role.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/tenants/role.h"
#include "runtime/tenants/tenant.h"

namespace atl::tenants {

// Takes rights of its role and tenant from a key. An empty list and a 0 take nothing.
struct Narrowing {
  // Routes, as MatchesRoute reads them. Empty: all of the role's.
  std::vector<std::string> routes;
  std::vector<std::string> images;  // rules of images/allowed.h, beside those of the tenant
  // Counted over all that the tenant has. The lower of both limits counts.
  Quota max;

  bool operator==(const Narrowing&) const = default;
};

struct Identity {
  std::string key_id = {};  // name of the key in the log and audit; empty: no key
  std::string tenant = {};  // empty: the host
  Role role = Role::kAdmin;
  std::shared_ptr<const Narrowing> narrowing = nullptr;  // null: none
  std::string subject = {};  // an identity provider's name of the person; empty: of a key
};

// Checks a route of a narrowing: "METHOD PATH", in which '*' stands for any characters. The path is
// that of the table of rights, without /v1: "GET /metrics", "* /sandboxes/{sandbox_id}*".
Status CheckRouteRule(const std::string& rule);
// Returns true if one of the rules names the route, or if there is no rule.
bool MatchesRoute(const std::vector<std::string>& rules, const std::string& route);

}  // namespace atl::tenants
