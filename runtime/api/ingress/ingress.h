// The ways into a port of a sandbox, without an API key: the SDKs' calls to execd carry none. The
// sandbox's id is the secret; behind port 44772 execd's token is, and behind every port of a
// sandbox with secure access its own token, or a signature.
//
//   proxy    [/v1]/sandboxes/{id}/proxy/{port}[/rest]
//   uri      /{id}/{port}[/{expiry}/{signature}][/rest]
//   header   OpenSandbox-Ingress-To: {id}-{port}[-{expiry}-{signature}]
//   host     {id}-{port}[-{expiry}-{signature}].DOMAIN, if a domain is configured, and .localhost
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/ingress/guess_limit.h"
#include "runtime/api/ingress/route_signature.h"
#include "runtime/http/message.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

inline constexpr char kSecureAccessHeader[] = "OpenSandbox-Secure-Access";
inline constexpr char kIngressHeader[] = "OpenSandbox-Ingress-To";

// Ports behind which something of ours is: execd, and the daemon itself (egress_api.h).
inline constexpr int kExecdPort = 44772;
inline constexpr int kEgressPort = 18080;

// The longest label of a DNS name (RFC 1035 section 2.3.4).
inline constexpr size_t kMaxLabel = 63;

enum class RouteForm { kProxy, kUri, kHeader, kHost };

struct IngressConfig {
  RouteForm told = RouteForm::kProxy;  // in endpoints; requests may come in any form
  // "sandboxes.example.org[:port]": where clients reach the forms other than kProxy, which is told
  // at the server's own address; for kHost what follows the name of the route.
  std::string address;
  std::string domain;  // "sandboxes.example.org"; empty: .localhost alone
  std::vector<RouteKey> keys;
  char active_key = 'a';  // signs
  // Signatures of upstream's 32 bits are made, and taken beside the long ones.
  bool short_signatures = false;
  std::string egress_secret;  // from which the egress tokens of all sandboxes follow
  std::string api_key;        // with which all tokens end (TokenFor); set by Api
};

// A request's parts, as they came: nothing is decoded, and only what tells the forms apart is
// checked.
struct Route {
  RouteForm form = RouteForm::kProxy;
  std::string_view id;
  std::string_view port;
  std::string_view rest;  // "", "/…", "?…" or "/…?…"
  // Empty: none was given. In the uri form they may be the beginning of a path as well.
  std::string_view expires36;
  std::string_view signature;
  std::string_view rest_if_signed;
};
// Nothing: not a way into a sandbox.
std::optional<Route> FindRoute(const http::Request& request, const IngressConfig& config);

// 1 to 65535, digits only.
std::optional<int> ParsePort(std::string_view text);

// Whether it ends at something of ours that asks for a token: execd's API, the egress policy.
// Everything else is a server in the sandbox.
bool IsTokenRoute(const Route& route);

// Whether the request may pass; if so, the rest of its target. A token that is given must be right,
// whatever the signature says. Wrong signatures are bounded by `guesses` (429); a right long one
// passes all the same, since it cannot have been guessed.
Parsed<std::string_view> Admit(const http::Request& request, const Route& route, int port,
                               const sandbox::Sandbox& sandbox, const IngressConfig& config,
                               int64_t unix_ms, GuessLimit* guesses);

}  // namespace atl::api
