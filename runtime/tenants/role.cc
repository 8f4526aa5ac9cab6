#include "runtime/tenants/role.h"

namespace atl::tenants {

const char* RoleName(Role role) {
  switch (role) {
    case Role::kViewer:
      return "viewer";
    case Role::kDeveloper:
      return "developer";
    case Role::kOperator:
      return "operator";
    case Role::kAuditor:
      return "auditor";
    case Role::kAdmin:
      return "admin";
  }
  return "";
}

std::optional<Role> ParseRole(std::string_view word) {
  for (const Role role : kRoles) {
    if (word == RoleName(role)) return role;
  }
  return std::nullopt;
}

}  // namespace atl::tenants
