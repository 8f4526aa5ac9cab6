// The credential vault of one sandbox at run time, as upstream's egress sidecar serves it at port
// 18080 of the sandbox's endpoint, beside the policy (egress_api.h).
//
//   POST   /credential-vault                      a vault; 201, or 409: there is one
//   GET, PATCH, DELETE /credential-vault          what is in it; mutations; none from now on (204)
//   GET    /credential-vault/credentials[/NAME]   names and revisions
//   GET    /credential-vault/bindings[/NAME]      what they match
//
// Nothing that is answered has a value in it. 412: the sandbox was created without credentialProxy,
// or what puts credentials in does not run.
#pragma once

#include <string>
#include <string_view>

#include "runtime/api/gate/call.h"
#include "runtime/sandbox/live/changes.h"

namespace atl::api {

inline constexpr char kVaultPath[] = "/credential-vault";

// Answers a request about the running sandbox `id` from somebody who may ask. `rest`: what stands
// behind kVaultPath. The sandbox may end while the body is read.
void ServeVault(const Call& call, sandbox::Changes& changes, const std::string& id,
                std::string_view rest);

}  // namespace atl::api
