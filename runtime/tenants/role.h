// The roles of keys. A role says which routes a key may use, and whether it reaches the objects of
// its own tenant or of all tenants (api/gate/rights.h has the row of each route).
//
//   viewer     reads the objects of its tenant, but not what sandboxes contain
//   developer  does everything with the objects of its tenant
//   operator   runs the host: sees, pauses and deletes the sandboxes of all tenants, enters none
//   auditor    reads names, states, the audit log and the usage of all tenants
//   admin      does everything
//
// Without tenants, the one key is an admin.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace atl::tenants {

enum class Role : uint8_t { kViewer, kDeveloper, kOperator, kAuditor, kAdmin };

inline constexpr std::array kRoles = {Role::kViewer, Role::kDeveloper, Role::kOperator,
                                      Role::kAuditor, Role::kAdmin};

// Returns true for a role that reaches all tenants. Its holders belong to the host.
constexpr bool IsOfTheHost(Role role) {
  return role != Role::kViewer && role != Role::kDeveloper;
}

// Returns the word of the role in files, answers and the audit log.
const char* RoleName(Role role);
// Returns nothing for a word that is no role.
std::optional<Role> ParseRole(std::string_view word);

}  // namespace atl::tenants
