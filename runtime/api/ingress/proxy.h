// Forwards a request on a route into a sandbox (ingress.h) to its execd: any method, WebSocket
// included.
//
// Port 44772 is execd itself. Every other port is reached through execd's /proxy/{port}/.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "netpolicy/network.h"
#include "runtime/api/gate/call.h"
#include "runtime/api/gate/shares.h"
#include "runtime/api/ingress/admin_entries.h"
#include "runtime/api/ingress/ingress.h"
#include "runtime/api/ingress/proxy_judge.h"
#include "runtime/api/ingress/refusals.h"
#include "runtime/api/ingress/terminal_recorder.h"
#include "runtime/sandbox/sandboxes.h"

namespace atl::api {

inline constexpr char kExecdTokenHeader[] = "X-EXECD-ACCESS-TOKEN";

// The inputs that decide about a proxied request.
struct ProxyRules {
  const IngressConfig& ingress;
  std::string_view api_key;  // never forwarded, in any header or the URL
  GuessLimit* guesses;
  Refusals* refusals;
  // Null: the daemon has no tenants. Else `admin_entries` and `identify` are set.
  const ProxyJudge* judge = nullptr;
  AdminEntries* admin_entries = nullptr;
  // The sender, if the connection says who that is. Null: what the request shows says it.
  const std::optional<tenants::Identity>* known = nullptr;
  // Finds the holder of the request's key, or the refusal of that key.
  const std::function<void(const Call&, std::function<void(Parsed<tenants::Identity>)>)>* identify =
      nullptr;
  std::shared_ptr<Auditor> auditor = nullptr;  // null: no audit log
  TerminalRecorder* recorder = nullptr;        // null: terminals are not recorded
  Shares* shares = nullptr;                    // shares of the requests in flight; null: no tenants
  int64_t unix_ms = 0;
  std::string_view request_id = {};
  bool gone = false;                // a sandbox had this id and is gone
  std::string_view base_path = {};  // the prefix that a reverse proxy removes
  const Entry* entry = nullptr;     // set: the request has been judged, and needs no other token
};
// Returns the request to forward and its destination, or the refusal. `sandbox` is null if there is
// no such sandbox.
Parsed<http::Upstream> UpstreamFor(const http::Request& request, const Route& route,
                                   const sandbox::Sandbox* sandbox, const std::string& socket_path,
                                   const ProxyRules& rules);

// Answers the call, or hands it to execd. Sets the call's caller, and the members of `rules` from
// `unix_ms` on except `base_path`, itself.
void Proxy(Call call, const Route& route, sandbox::Sandboxes& sandboxes,
           netpolicy::Network& network, ProxyRules rules);

}  // namespace atl::api
