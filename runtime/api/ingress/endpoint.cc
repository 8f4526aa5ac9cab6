#include "runtime/api/ingress/endpoint.h"
#include "runtime/api/ingress/egress_api.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/api/ingress/auth.h"
#include "runtime/api/ingress/proxy.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

bool IsTrue(std::string_view text) {
  std::string lower;
  for (char c : text) lower.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  return lower == "1" || lower == "true" || lower == "yes" || lower == "on" || lower == "t" ||
         lower == "y";
}

bool IsAuthority(std::string_view host) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
  return !host.empty() && host.size() <= 300 &&
         host.find_first_not_of(kAllowed) == std::string_view::npos;
}

// Returns "{id}-{port}", followed by `mark` and the signature if there is one.
std::string RouteName(const std::string& id, int port, const std::string& signature, char mark) {
  std::string name = id + mark + std::to_string(port);
  if (!signature.empty()) name.append(1, mark).append(signature);
  return name;
}

// Returns "{expiry}{mark}{signature}", or "" for an unsigned route.
Parsed<std::string> SignatureOf(const std::string& id, const EndpointRequest& wanted,
                                const IngressConfig& ingress, char mark) {
  if (!wanted.expires) return std::string();
  const auto key = std::find_if(ingress.keys.begin(), ingress.keys.end(),
                                [&](const RouteKey& one) { return one.id == ingress.active_key; });
  if (key == ingress.keys.end()) {
    return Refuse(400, "SANDBOX::API_NOT_SUPPORTED",
                  "expires: this server has no key to sign routes with; configure "
                  "ingress.secure_access");
  }
  const std::string expires36 = ToBase36(*wanted.expires);
  const auto form = ingress.short_signatures ? SignatureForm::kShort : SignatureForm::kLong;
  return expires36 + mark + SignRoute(*key, form, id, wanted.port, expires36);
}

// Returns the headers that admit a request to the port.
std::vector<http::Header> TokensOf(const sandbox::Sandbox& sandbox, const EndpointRequest& wanted,
                                   const IngressConfig& ingress,
                                   const std::optional<std::string>& token) {
  std::vector<http::Header> headers;
  const bool is_execd = wanted.port == kExecdPort;
  const bool is_egress = wanted.port == kEgressPort;
  if (token) {
    if (token->empty()) return headers;
    if (is_execd || is_egress) headers.push_back({kExecdTokenHeader, *token});
    if (is_egress) headers.push_back({kEgressTokenHeader, *token});
    if (!is_execd && !is_egress && !wanted.expires) {
      headers.push_back({kSecureAccessHeader, *token});
    }
    return headers;
  }
  if (!wanted.expires && !sandbox.secure_token.empty()) {
    headers.push_back({kSecureAccessHeader, TokenFor(ingress.api_key, sandbox.secure_token)});
  }
  // Servers on other ports need no header: the proxy adds execd's token.
  if (is_execd && !sandbox.access_token.empty()) {
    headers.push_back({kExecdTokenHeader, TokenFor(ingress.api_key, sandbox.access_token)});
  }
  if (is_egress) {
    headers.push_back(
        {kEgressTokenHeader, EgressToken(ingress.egress_secret, ingress.api_key, sandbox.id)});
  }
  return headers;
}

}  // namespace

Parsed<EndpointRequest> ParseEndpointRequest(const std::string& port, std::string_view query,
                                             int64_t unix_ms) {
  Problems problems;
  int64_t number = 0;
  if (!ParseInteger(port, {"path", "port"}, INT64_MIN, INT64_MAX, &problems, &number)) {
    return Refuse(problems.ToResponse());
  }
  if (number < 1 || number > 65535) {
    return Refuse(400, "DOCKER::INVALID_PORT",
                  "port " + std::to_string(number) + " must be from 1 to 65535");
  }
  EndpointRequest wanted;
  wanted.port = static_cast<int>(number);
  for (const auto& [name, value] : http::ParseQuery(query)) {
    if (name == "use_server_proxy") wanted.server_proxy = IsTrue(value);
    if (name != "expires") continue;
    uint64_t seconds = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (value.empty() || rest != value.data() + value.size() || error != std::errc() ||
        seconds <= static_cast<uint64_t>(unix_ms) / 1000) {
      return Refuse(400, "SANDBOX::INVALID_PARAMETER",
                    "expires '" + value.substr(0, 24) +
                        "': use a moment in the future, in seconds since 1970, at most 2^64-1");
    }
    wanted.expires = seconds;
  }
  if (wanted.expires && wanted.server_proxy) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER",
                  "expires cannot be combined with use_server_proxy");
  }
  return wanted;
}

Parsed<void> MaySign(const EndpointRequest& wanted, const tenants::Caller& caller) {
  // Signatures open no port of Atoll's own.
  if (!wanted.expires || wanted.port == kExecdPort || wanted.port == kEgressPort) return {};
  auto judged = Judge(RightsAtPort(wanted.port, "GET", "/"), {.key_id = caller.key_id,
                                                              .tenant = caller.tenant,
                                                              .role = caller.role,
                                                              .narrowing = caller.narrowing});
  if (!judged) return Refuse(std::move(judged).error());
  return {};
}

Parsed<http::Response> EndpointResponse(const http::Request& request,
                                        const sandbox::Sandbox& sandbox,
                                        const EndpointRequest& wanted, const EndpointConfig& config,
                                        const IngressConfig& ingress,
                                        const std::optional<std::string>& token) {
  std::string base = config.public_host;
  if (base.empty()) base = std::string(request.headers.Get("Host"));
  if (!IsAuthority(base)) base = config.address;
  base += config.base_path;
  RouteForm form = wanted.server_proxy ? RouteForm::kProxy : ingress.told;
  if (form != RouteForm::kProxy) base = ingress.address;
  if (form == RouteForm::kProxy && wanted.expires) form = RouteForm::kUri;
  const char mark = form == RouteForm::kUri ? '/' : '-';
  const auto signature = SignatureOf(sandbox.id, wanted, ingress, mark);
  if (!signature) return Refuse(signature.error());
  const std::string name = RouteName(sandbox.id, wanted.port, *signature, mark);
  if (form == RouteForm::kHost && name.size() > kMaxLabel) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER",
                  "expires: the name of this host would be longer than the 63 characters that DNS "
                  "allows; use an earlier moment");
  }
  nlohmann::json headers = nlohmann::json::object();
  nlohmann::json body;
  switch (form) {
    case RouteForm::kProxy:
      // Keeps /v1: a proxy in front of the daemon may forward only paths below /v1.
      if (request.path().starts_with("/v1/")) base += "/v1";
      body["endpoint"] =
          base + "/sandboxes/" + sandbox.id + "/proxy/" + std::to_string(wanted.port);
      break;
    case RouteForm::kUri:
      body["endpoint"] = base + "/" + name;
      break;
    case RouteForm::kHeader:
      body["endpoint"] = base;
      headers[kIngressHeader] = name;
      break;
    case RouteForm::kHost:
      body["endpoint"] = name + "." + base;
      break;
  }
  for (const http::Header& header : TokensOf(sandbox, wanted, ingress, token)) {
    headers[header.name] = header.value;
  }
  if (!headers.empty()) body["headers"] = std::move(headers);
  http::Response response = JsonResponse(200, body);
  // This header makes clients ask the daemon about the network policy, not a port of the sandbox.
  if (!sandbox.spec.template_id.empty()) response.headers.Set("OPEN-SANDBOX-ORIGIN", "template");
  return response;
}

}  // namespace atl::api
