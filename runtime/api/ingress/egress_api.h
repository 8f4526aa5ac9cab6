// The network policy of a running sandbox: the API that upstream's egress sidecar serves at port
// 18080 of the sandbox's endpoint. Here the daemon answers it, and nothing of it runs in the
// sandbox.
//
//   GET    /healthz  "ok"
//   GET    /policy   {"status", "mode", "enforcementMode", "policy"}
//   POST, PUT /policy   replaces the policy; without a body nothing may be reached
//   PATCH  /policy   inserts rules before the others
//   DELETE /policy   removes the rules of the given targets
//
//   …      /credential-vault…   see vault_api.h
//
// All but /healthz require the sandbox's token in OPENSANDBOX-EGRESS-AUTH, which GET endpoints
// returns. Errors are text/plain, as upstream's are.
#pragma once

#include <string>
#include <string_view>

#include "netpolicy/network.h"
#include "runtime/api/gate/call.h"
#include "runtime/api/ingress/ingress.h"
#include "runtime/sandbox/sandboxes.h"

namespace atl::api {

inline constexpr char kEgressTokenHeader[] = "OPENSANDBOX-EGRESS-AUTH";

// Derives the token from the sandbox's id, a secret of the daemon and the API key. The token of one
// sandbox reveals no other.
std::string EgressToken(const std::string& secret, const std::string& api_key,
                        const std::string& sandbox_id);

// Answers a request about the policy of the running sandbox `id`. The caller has authorised it. The
// sandbox may end while the body is read.
void ServePolicy(const Call& call, sandbox::Sandboxes& sandboxes, netpolicy::Network& network,
                 const std::string& id);

// Answers any request of this API for the running sandbox `id`. `rest` is the rest of the target,
// "/policy?…". `token`: what the request must have in kEgressTokenHeader; null: it has been judged
// already. The sandbox may end while the body is read.
void ServeEgress(const Call& call, sandbox::Sandboxes& sandboxes, netpolicy::Network& network,
                 const std::string* token, const std::string& id, std::string_view rest);

}  // namespace atl::api
