// From a way into a sandbox (ingress.h) to its execd: any method, WebSocket included.
//
// Port 44772 is execd itself; every other port is reached through execd's own /proxy/{port}/.
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

// What a proxied request is measured by.
struct ProxyRules {
  const IngressConfig& ingress;
  const std::string& api_key;  // never passes, under whatever header's name or in the URL
  GuessLimit* guesses;
  Refusals* refusals;
  int64_t unix_ms = 0;
  std::string_view request_id = {};
  bool gone = false;                // there was such a sandbox once
  std::string_view base_path = {};  // what a proxy in front of us takes off
};
// What to send where. `sandbox` is null for one that is not there.
Parsed<http::Upstream> UpstreamFor(const http::Request& request, const Route& route,
                                   const sandbox::Sandbox* sandbox, const std::string& socket_path,
                                   const ProxyRules& rules);

// Answers the call, or hands it over. `rules` need no time and nothing of the call or the sandbox.
void Proxy(const Call& call, const Route& route, sandbox::Sandboxes& sandboxes,
           netpolicy::Network& network, ProxyRules rules);

}  // namespace atl::api
