// Vaults in the form in which clients write them:
//
//   {"credentials": [{"name": "token", "source": {"type": "inline", "value": "…"}}],
//    "bindings": [{"name": "api",
//                  "match": {"hosts": ["api.example.com"], "paths": ["/v1/*"]},
//                  "auth": {"type": "bearer", "credential": "token"}}]}
//
// Defaults of a match: https, the methods GET, POST, PUT, PATCH and DELETE, all paths. A null
// counts as a missing member. Unknown members are refused.
//
// The input is hostile, and contains secrets, which no error repeats.
//
// Thread rule: pure functions.
#pragma once

#include <string_view>

#include "netpolicy/vault/document.h"
#include "runtime/base/result.h"

namespace atl::vault {

// Longer texts are refused unread: no valid vault is longer.
inline constexpr size_t kMaxVaultJson = 1 << 20;

// Parses a new vault, with revision 1. kInvalidArgument: says what is wrong and where
// ("bindings[2].match.hosts: …"), or is an error of Check.
Result<Vault> ParseVault(std::string_view json);

// Applies a mutation and returns the vault with the next revision:
//
//   {"expectedRevision": 3, "credentials": {"add": […], "replace": […], "delete": ["name"]},
//    "bindings": {…}}
//
// Within a section, deletions come first, then replacements, then additions. No name may occur
// twice in a section. Either everything is applied or, with an error, nothing. kFailedPrecondition:
// the vault does not have the expected revision. kInvalidArgument: any other problem, as above.
Result<Vault> Patch(const Vault& vault, std::string_view json);

}  // namespace atl::vault
