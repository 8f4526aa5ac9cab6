// Vaults as clients write them:
//
//   {"credentials": [{"name": "token", "source": {"type": "inline", "value": "…"}}],
//    "bindings": [{"name": "api",
//                  "match": {"hosts": ["api.example.com"], "paths": ["/v1/*"]},
//                  "auth": {"type": "bearer", "credential": "token"}}]}
//
// Left out of a match: https, the methods GET, POST, PUT, PATCH and DELETE, all paths. A null is
// the same as a member that is not there. Members that are not ours are refused.
//
// The text is hostile, and has secrets in it, which no error repeats. Thread rule: pure functions.
#pragma once

#include <string_view>

#include "netpolicy/vault/document.h"
#include "runtime/base/result.h"

namespace atl::vault {

// More is refused. Longer texts than any vault's need no reading.
inline constexpr size_t kMaxVaultJson = 1 << 20;

// A new vault, of revision 1. kInvalidArgument: what is wrong and where ("bindings[2].match.hosts:
// …"), or what Check says of the whole.
Result<Vault> ParseVault(std::string_view json);

// The vault after a mutation, with the next revision:
//
//   {"expectedRevision": 3, "credentials": {"add": […], "replace": […], "delete": ["name"]},
//    "bindings": {…}}
//
// Of a section, what is deleted goes first, then what is replaced, then what is added; no name may
// stand in it twice. All of it happens or, with an error, nothing. kFailedPrecondition: the vault
// has another revision than the expected one. kInvalidArgument: everything else, as above.
Result<Vault> Patch(const Vault& vault, std::string_view json);

}  // namespace atl::vault
