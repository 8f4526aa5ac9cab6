// GET /sandboxes/{id}/endpoints/{port}: where a port of a sandbox is reached from outside.
// Sandboxes publish no ports on the host, so it is always the daemon itself (ingress.h).
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
  std::optional<uint64_t> expires;  // Unix seconds: a signed route until then
  bool server_proxy = false;        // the proxy form, whatever the server tells otherwise
};
// The checks that need no sandbox.
Parsed<EndpointRequest> ParseEndpointRequest(const std::string& port, std::string_view query,
                                             int64_t unix_ms);

struct EndpointConfig {
  std::string public_host;  // "api.example.org[:port]": stands in place of the request's Host
  std::string base_path;    // "/atoll": what a proxy in front of us takes off
  std::string address;      // "127.0.0.1:8080", for requests without a usable Host
};

// {"endpoint": "host:port/sandboxes/{id}/proxy/{port}", "headers"?: {…}}: no scheme, and below /v1
// if the request is; the form is the one that `ingress` tells. With `expires` it is signed, and the
// proxy form becomes the uri form. kSecureAccess goes into the headers of what is not signed.
Parsed<http::Response> EndpointResponse(const http::Request& request,
                                        const sandbox::Sandbox& sandbox,
                                        const EndpointRequest& wanted, const EndpointConfig& config,
                                        const IngressConfig& ingress);

}  // namespace atl::api
