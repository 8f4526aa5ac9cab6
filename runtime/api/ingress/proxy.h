// Forwards a request on a route into a sandbox (ingress.h) to its execd: any method, WebSocket
// included.
//
// Port 44772 is execd itself. Every other port is reached through execd's /proxy/{port}/.
#pragma once

#include <string>
#include <string_view>

#include "netpolicy/network.h"
#include "runtime/api/gate/call.h"
#include "runtime/api/ingress/ingress.h"
#include "runtime/api/ingress/refusals.h"
#include "runtime/sandbox/sandboxes.h"

namespace atl::api {

inline constexpr char kExecdTokenHeader[] = "X-EXECD-ACCESS-TOKEN";

// The inputs that decide about a proxied request.
struct ProxyRules {
  const IngressConfig& ingress;
  const std::string& api_key;  // never forwarded, in any header or the URL
  GuessLimit* guesses;
  Refusals* refusals;
  int64_t unix_ms = 0;
  std::string_view request_id = {};
  bool gone = false;                // a sandbox had this id and is gone
  std::string_view base_path = {};  // the prefix that a reverse proxy removes
};
// Returns the request to forward and its destination, or the refusal. `sandbox` is null if there is
// no such sandbox.
Parsed<http::Upstream> UpstreamFor(const http::Request& request, const Route& route,
                                   const sandbox::Sandbox* sandbox, const std::string& socket_path,
                                   const ProxyRules& rules);

// Answers the call, or hands it to execd. Sets `unix_ms`, `request_id` and `gone` of `rules`
// itself.
void Proxy(const Call& call, const Route& route, sandbox::Sandboxes& sandboxes,
           netpolicy::Network& network, ProxyRules rules);

}  // namespace atl::api
