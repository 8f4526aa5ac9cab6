// GET /sandboxes/{id}/endpoints/{port}: the address under which clients reach a port of a sandbox.
// Sandboxes publish no ports on the host, so it is always an address of the daemon (ingress.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/ingress/ingress.h"
#include "runtime/http/message.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

struct EndpointRequest {
  int port = 0;
  std::optional<uint64_t> expires;  // Unix seconds; set: a signed route, valid until then
  bool server_proxy = false;        // use the proxy form, whatever is configured
};
// Does the checks that need no sandbox.
Parsed<EndpointRequest> ParseEndpointRequest(const std::string& port, std::string_view query,
                                             int64_t unix_ms);

// Refuses a signed route to a caller that may not use ports of sandboxes itself: whoever has the
// route reads the port without a key. Checks the role and the narrowing of the caller's key.
Parsed<void> MaySign(const EndpointRequest& wanted, const tenants::Caller& caller);

struct EndpointConfig {
  std::string public_host;  // "api.example.org[:port]", replaces the request's Host
  std::string base_path;    // "/atoll": the prefix that a reverse proxy removes
  std::string address;      // "127.0.0.1:8080", for requests without a usable Host
};

// Builds {"endpoint": "host:port/sandboxes/{id}/proxy/{port}", "headers"?: {…}}, without a scheme,
// and below /v1 if the request is. `ingress.told` chooses the form. With `expires` the route is
// signed, and the proxy form becomes the uri form. An unsigned route into a sandbox with secure
// access gets its token in `headers` (kSecureAccess). `token` is set on a
// daemon with tenants: every unsigned route gets it (endpoint_token.h) in place of the sandbox's
// tokens. Empty: the caller has no key that a token could name, and gets none.
Parsed<http::Response> EndpointResponse(const http::Request& request,
                                        const sandbox::Sandbox& sandbox,
                                        const EndpointRequest& wanted, const EndpointConfig& config,
                                        const IngressConfig& ingress,
                                        const std::optional<std::string>& token);

}  // namespace atl::api
