// Routes into a port of a sandbox. They need no API key, because the SDKs' calls to execd carry
// none. The sandbox's id is the secret. Port 44772 also requires execd's token, and every port of a
// sandbox with secure access requires its token or a signature.
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
#include "runtime/api/gate/rights.h"
#include "runtime/api/ingress/guess_limit.h"
#include "runtime/api/ingress/route_signature.h"
#include "runtime/http/message.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

inline constexpr char kSecureAccessHeader[] = "OpenSandbox-Secure-Access";
inline constexpr char kIngressHeader[] = "OpenSandbox-Ingress-To";

// The longest label of a DNS name (RFC 1035 section 2.3.4).
inline constexpr size_t kMaxLabel = 63;

enum class RouteForm { kProxy, kUri, kHeader, kHost };

struct IngressConfig {
  RouteForm told = RouteForm::kProxy;  // the form in endpoints; requests may use any form
  // "sandboxes.example.org[:port]": the public address of the forms other than kProxy, which uses
  // the server's own address. For kHost, the part after the route's label.
  std::string address;
  std::string domain;  // "sandboxes.example.org"; empty: only .localhost
  std::vector<RouteKey> keys;
  char active_key = 'a';  // the key that signs
  // Signs with upstream's 32 bits, and accepts these beside the long signatures.
  bool short_signatures = false;
  std::string egress_secret;  // derives all egress tokens
  std::string api_key;        // revokes all tokens when it changes (TokenFor); set by Api
  // The key that the daemon had before it had tenants. Tokens that were derived from it still open
  // their sandboxes. Empty: none.
  std::string former_api_key;
};

// The parts of a request as received. Nothing is decoded. Only the form has been determined.
struct Route {
  RouteForm form = RouteForm::kProxy;
  std::string_view id;
  std::string_view port;
  std::string_view rest;  // "", "/…", "?…" or "/…?…"
  // Empty: not given. In the uri form these two may also be the start of a path.
  std::string_view expires36;
  std::string_view signature;
  std::string_view rest_if_signed;
};
// Returns nothing if the request is not a route into a sandbox.
std::optional<Route> FindRoute(const http::Request& request, const IngressConfig& config);

// Parses 1 to 65535, digits only.
std::optional<int> ParsePort(std::string_view text);

// Returns true if the route ends at a service of Atoll that requires a token: execd's API or the
// egress policy. Everything else is a server in the sandbox.
bool IsTokenRoute(const Route& route);

// Returns true if the route has a right signature for the port, whether or not it has expired.
bool IsSigned(const Route& route, int port, const IngressConfig& config);
// Returns true if the expiry of a signed route is over.
bool HasExpired(const Route& route, int64_t unix_ms);
// Returns 429: too many wrong signatures.
http::Response TooManyGuesses();

// Returns the rest of the target if the request may pass, else the refusal. A given token must be
// right, whatever the signature is. `guesses` limits wrong signatures (429). A right long signature
// passes the limit, because nobody can have guessed it.
Parsed<std::string_view> Admit(const http::Request& request, const Route& route, int port,
                               const sandbox::Sandbox& sandbox, const IngressConfig& config,
                               int64_t unix_ms, GuessLimit* guesses);

}  // namespace atl::api
