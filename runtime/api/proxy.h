// The way into a sandbox: [/v1]/sandboxes/{id}/proxy/{port}[/rest][?query], any method, WebSocket
// included, without an API key (the SDKs' calls to execd carry none): the id is the secret, and
// behind port 44772 the execd token is.
//
// Port 44772 is execd itself; every other port is reached through execd's own /proxy/{port}/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/api/call.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::api {

inline constexpr int kExecdPort = 44772;
inline constexpr int kEgressPort = 18080;
inline constexpr char kExecdTokenHeader[] = "X-EXECD-ACCESS-TOKEN";

// The parts of such a target, as they came: nothing is decoded, nothing is checked.
struct ProxyTarget {
  std::string_view id;
  std::string_view port;
  std::string_view rest;  // "", "/…", "?…" or "/…?…"
};
// Nothing: not a proxy path.
std::optional<ProxyTarget> ParseProxyTarget(std::string_view target);

// 1 to 65535, digits only.
std::optional<int> ParsePort(std::string_view text);

// What to send where. `api_key` never passes, under whatever header's name.
Parsed<http::Upstream> UpstreamFor(const http::Request& request, const ProxyTarget& target,
                                   const sandbox::Sandbox* sandbox, const std::string& socket_path,
                                   const std::string& api_key);

// Answers the call, or hands it over.
void Proxy(const Call& call, const ProxyTarget& target, const sandbox::Lifecycle& lifecycle,
           const std::string& api_key);

}  // namespace atl::api
