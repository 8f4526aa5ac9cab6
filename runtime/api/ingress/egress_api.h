// The policy of one sandbox at run time: what upstream's egress sidecar serves at port 18080 of the
// sandbox's endpoint. Here the daemon answers it; nothing of it is in the sandbox.
//
//   GET    /healthz  "ok"
//   GET    /policy   {"status", "mode", "enforcementMode", "policy"}
//   POST, PUT /policy   a policy instead of the one before; no body: nothing may be reached
//   PATCH  /policy   rules in front of the others
//   DELETE /policy   targets whose rules go
//
//   …      /credential-vault…   see vault_api.h
//
// All but the first want the sandbox's token in OPENSANDBOX-EGRESS-AUTH, which GET endpoints tells.
// Errors are text/plain, as upstream's are.
#pragma once

#include <string>
#include <string_view>

#include "netpolicy/network.h"
#include "runtime/api/gate/call.h"
#include "runtime/api/ingress/ingress.h"
#include "runtime/sandbox/sandboxes.h"

namespace atl::api {

inline constexpr char kEgressTokenHeader[] = "OPENSANDBOX-EGRESS-AUTH";

// Follows from the sandbox's id, a secret of the daemon's and the API key; whoever has one learns
// no other.
std::string EgressToken(const IngressConfig& config, const std::string& sandbox_id);

// Answers a request about the policy of the running sandbox `id` from somebody who may ask. The
// sandbox may end while the body is read.
void ServePolicy(const Call& call, sandbox::Sandboxes& sandboxes, netpolicy::Network& network,
                 const std::string& id);

// Answers a request for the running sandbox `id`. `rest`: of its target, "/policy?…". The
// sandbox may end while the body is read.
void ServeEgress(const Call& call, sandbox::Sandboxes& sandboxes, netpolicy::Network& network,
                 const IngressConfig& config, const std::string& id, std::string_view rest);

}  // namespace atl::api
