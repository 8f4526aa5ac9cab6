#include "runtime/api/endpoint.h"

#include <nlohmann/json.hpp>

#include "runtime/api/json.h"
#include "runtime/api/proxy.h"
#include "runtime/api/validation.h"
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

}  // namespace

Parsed<int> ParseEndpointRequest(const std::string& port, std::string_view query) {
  Problems problems;
  int64_t number = 0;
  if (!ParseInteger(port, {"path", "port"}, INT64_MIN, INT64_MAX, &problems, &number)) {
    return Refuse(problems.ToResponse());
  }
  if (number < 1 || number > 65535) {
    return Refuse(400, "DOCKER::INVALID_PORT",
                  "port " + std::to_string(number) + " must be from 1 to 65535");
  }
  bool server_proxy = false;
  bool expires = false;
  for (const auto& [name, value] : http::ParseQuery(query)) {
    if (name == "use_server_proxy") server_proxy = IsTrue(value);
    if (name == "expires") expires = true;
  }
  if (expires && server_proxy) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER",
                  "expires cannot be combined with use_server_proxy");
  }
  if (expires) {
    return Refuse(400, "SANDBOX::API_NOT_SUPPORTED",
                  "expires: signed endpoints are not offered here; leave it out");
  }
  return static_cast<int>(number);
}

http::Response EndpointResponse(const http::Request& request, const sandbox::Sandbox& sandbox,
                                int port, const std::string& fallback) {
  std::string base(request.headers.Get("Host"));
  if (!IsAuthority(base)) base = fallback;
  nlohmann::json body = {
      {"endpoint", base + "/sandboxes/" + sandbox.id + "/proxy/" + std::to_string(port)}};
  // Behind the other ports stand the sandbox's own servers, for which the proxy adds the token.
  if (port == kExecdPort && !sandbox.access_token.empty()) {
    body["headers"] = {{kExecdTokenHeader, sandbox.access_token}};
  }
  return JsonResponse(200, body);
}

}  // namespace atl::api
