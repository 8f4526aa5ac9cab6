// The tenants' file (tenants.toml), as OpenSandbox's server has it, with Atoll's additions:
//
//   [[tenants]]
//   name = "red"; namespace = "red"; api_keys = ["…"]     upstream's three
//   weight, max, history = {keep, max_bytes}, images, egress_ceiling, object_stores, host_paths,
//   policy_locked, labels, self_service
//
//   [[tenants.oidc]]             whose tokens of an identity provider are let in, and as what
//   issuer = "https://idp.example"; audience = "atoll"; jwks = "https://idp.example/jwks"
//   when = { groups = "team-red" }; role = "developer"
//
//   [[tests]]                    checked before the file is taken
//   tenant = "red"; role = "viewer"
//   accept = ["GET /sandboxes", "image python:3.11"]
//   deny = ["POST /sandboxes"]
//
// The file is strict, because a misspelt limit would be no limit: an unknown key is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/tenants/role.h"
#include "runtime/tenants/tenant.h"

namespace atl::tenants {

inline constexpr size_t kMostTenants = 1024;

// An expectation of the file about itself.
struct TenantsTest {
  std::string where;  // "FILE line 12"
  std::string tenant;
  Role role = Role::kDeveloper;
  std::vector<std::string> accept;  // routes ("METHOD PATH") and images ("image NAME")
  std::vector<std::string> deny;
};

struct TenantsFile {
  std::vector<Tenant> tenants;
  std::vector<TenantsTest> tests;
  std::vector<std::string> warnings;
};

// Answers the questions of tests that depend on other parts of the daemon.
struct TenantsOracle {
  // Whether the role may use a route, named as RouteName does. kNotFound: there is no such route.
  std::function<Result<bool>(Role, const std::string& route)> may_use_route;
};

// Returns true for 1 to 63 of [a-z0-9-] that begin with a letter or digit.
bool IsTenantName(std::string_view name);

// Parses the file. `name` stands for it in errors, which name line and key. No error repeats a key.
// kInvalidArgument: not such a file.
Result<TenantsFile> ParseTenants(std::string_view text, const std::string& name);

// Runs the tests of the file. kFailedPrecondition: one fails; the message says which and why.
Status RunTests(const TenantsFile& file, const TenantsOracle& oracle);

// Reads `path`, parses it and runs its tests. Requires that only root and the daemon's user may
// write the file. Warns if every user of the host may read keys in it.
Result<TenantsFile> LoadTenants(const std::string& path, const TenantsOracle& oracle);

}  // namespace atl::tenants
