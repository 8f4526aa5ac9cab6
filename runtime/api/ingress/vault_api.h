// The credential vault of a running sandbox, as upstream's egress sidecar serves it at port 18080
// of the sandbox's endpoint, beside the policy (egress_api.h).
//
//   POST   /credential-vault                      creates the vault: 201, or 409 if it exists
//   GET    /credential-vault                      its content, without values
//   PATCH  /credential-vault                      mutations
//   DELETE /credential-vault                      removes the vault (204)
//   GET    /credential-vault/credentials[/NAME]   names and revisions
//   GET    /credential-vault/bindings[/NAME]      what the bindings match
//
// No answer contains a value. 412: the sandbox was created without credentialProxy, or the proxy
// that inserts credentials has failed. 503: the spawner, which starts that proxy, is being
// replaced.
#pragma once

#include <string>
#include <string_view>

#include "runtime/api/gate/call.h"
#include "runtime/sandbox/live/changes.h"

namespace atl::api {

inline constexpr char kVaultPath[] = "/credential-vault";

// Answers a request about the running sandbox `id`. The caller has authorised it. `rest` follows
// kVaultPath in the target. The sandbox may end while the body is read.
void ServeVault(const Call& call, sandbox::Changes& changes, const std::string& id,
                std::string_view rest);

}  // namespace atl::api
