// GET /sandboxes/{id}/endpoints/{port}: where a port of a sandbox is reached from outside.
// Sandboxes publish no ports on the host, so it is always the daemon's own proxy.
#pragma once

#include <string>
#include <string_view>

#include "runtime/api/api_error.h"
#include "runtime/http/message.h"
#include "runtime/sandbox/sandbox.h"

namespace atl::api {

// The checks that need no sandbox.
Parsed<int> ParseEndpointRequest(const std::string& port, std::string_view query);

// {"endpoint": "host:port/sandboxes/{id}/proxy/{port}", "headers"?: {…}}: no scheme. `fallback` is
// the daemon's own address, for a request without a usable Host.
http::Response EndpointResponse(const http::Request& request, const sandbox::Sandbox& sandbox,
                                int port, const std::string& fallback);

}  // namespace atl::api
