#include "runtime/api/proxy.h"

#include <charconv>
#include <utility>

#include "runtime/api/auth.h"
#include "runtime/api/error_map.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

// Cookie and Authorization belong to this daemon's origin, which all sandboxes share in a browser:
// what one of them set must not reach another.
// The last one opens what execd has for this daemon alone.
constexpr const char* kNeverPassed[] = {kApiKeyHeader, "Authorization", "Cookie",
                                        sandbox::kExecdInternalHeader};

// True if a segment of the path is "." or "..", however it is written. execd's own paths and the
// ones that it proxies differ only by their prefix, and the token that we add opens both: nobody
// may normalise "/proxy/80/../../command" into the other kind.
bool HasDotSegment(std::string_view rest) {
  std::string_view path = rest.substr(0, rest.find('?'));
  while (!path.empty()) {
    const size_t end = std::min(path.find_first_of("/\\", 1), path.size());
    std::string decoded;
    if (!http::PercentDecode(path.substr(0, end), &decoded)) return true;
    for (size_t i = 0; i <= decoded.size();) {
      const size_t stop = std::min(decoded.find_first_of("/\\", i), decoded.size());
      const std::string_view segment = std::string_view(decoded).substr(i, stop - i);
      if (segment == "." || segment == "..") return true;
      i = stop + 1;
    }
    path.remove_prefix(end);
  }
  return false;
}

// execd compares decoded paths.
bool IsForDaemonOnly(std::string_view rest) {
  std::string decoded;
  return http::PercentDecode(rest.substr(0, rest.find('?')), &decoded) &&
         decoded.starts_with(sandbox::kExecdInternalRoute);
}

void SetForwarded(const http::Request& request, http::Upstream* upstream) {
  const auto set_if_absent = [&](const char* name, std::string value) {
    if (!request.headers.Has(name) && !value.empty()) {
      upstream->set_headers.push_back({name, std::move(value)});
    }
  };
  set_if_absent("X-Forwarded-Proto", "http");
  set_if_absent("X-Forwarded-Host", std::string(request.headers.Get("Host")));
  set_if_absent("X-Forwarded-For", request.peer.substr(0, request.peer.rfind(':')));
}

}  // namespace

std::optional<ProxyTarget> ParseProxyTarget(std::string_view target) {
  constexpr std::string_view kPrefix = "/v1/";
  constexpr std::string_view kSandboxes = "/sandboxes/";
  constexpr std::string_view kProxy = "/proxy/";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size() - 1);
  if (!target.starts_with(kSandboxes)) return std::nullopt;
  target.remove_prefix(kSandboxes.size());
  const size_t id_end = target.find_first_of("/?");
  if (id_end == std::string_view::npos || !target.substr(id_end).starts_with(kProxy)) {
    return std::nullopt;
  }
  ProxyTarget parts;
  parts.id = target.substr(0, id_end);
  target.remove_prefix(id_end + kProxy.size());
  const size_t port_end = std::min(target.find_first_of("/?"), target.size());
  parts.port = target.substr(0, port_end);
  parts.rest = target.substr(port_end);
  return parts;
}

std::optional<int> ParsePort(std::string_view text) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  const bool digits = text.find_first_not_of("0123456789") == std::string_view::npos;
  if (text.empty() || !digits || error != std::errc() || rest != end || port < 1 || port > 65535) {
    return std::nullopt;
  }
  return port;
}

Parsed<http::Upstream> UpstreamFor(const http::Request& request, const ProxyTarget& target,
                                   const sandbox::Sandbox* sandbox, const std::string& socket_path,
                                   const std::string& api_key) {
  const auto port = ParsePort(target.port);
  if (!port) {
    return Refuse(400, "DOCKER::INVALID_PORT",
                  "port '" + std::string(target.port.substr(0, 16)) + "': use 1 to 65535");
  }
  if (sandbox == nullptr) {
    return Refuse(404, "DOCKER::SANDBOX_NOT_FOUND",
                  "sandbox '" + std::string(target.id.substr(0, 64)) + "' does not exist");
  }
  if (sandbox->state != sandbox::State::kRunning) {
    return Refuse(409, "DOCKER::SANDBOX_NOT_RUNNING",
                  "sandbox " + sandbox->id + " is " +
                      std::string(sandbox::StateName(sandbox->state)) + ": " + sandbox->message);
  }
  http::Upstream upstream;
  upstream.socket_path = socket_path;
  const bool execd = *port == kExecdPort;
  const std::string port_text = std::to_string(*port);
  if (!execd) {
    if (HasDotSegment(target.rest)) {
      return Refuse(
          400, "SANDBOX::INVALID_PARAMETER",
          "the path holds a '.' or '..' segment, or a malformed escape; send it resolved");
    }
    upstream.target = "/proxy/" + port_text;
    if (!sandbox->access_token.empty()) {
      upstream.set_headers.push_back({kExecdTokenHeader, sandbox->access_token});
    }
  }
  if (execd && IsForDaemonOnly(target.rest)) {
    return Refuse(404, "GENERAL::NOT_FOUND", "there is no such path for clients");
  }
  if (!target.rest.starts_with('/')) upstream.target.push_back('/');
  upstream.target.append(target.rest);
  upstream.drop_headers.assign(std::begin(kNeverPassed), std::end(kNeverPassed));
  for (const http::Header& header : request.headers.list) {
    if (!api_key.empty() && header.value.find(api_key) != std::string::npos) {
      upstream.drop_headers.push_back(header.name);
    }
  }
  // A server in the sandbox checks Host against what it listens on, if it checks it at all.
  upstream.set_headers.push_back({"Host", "localhost:" + port_text});
  SetForwarded(request, &upstream);
  return upstream;
}

void Proxy(const Call& call, const ProxyTarget& target, const sandbox::Lifecycle& lifecycle,
           const std::string& api_key) {
  const std::string id(target.id);
  const sandbox::Sandbox* sandbox = ValidSandboxId(id) ? lifecycle.Find(id) : nullptr;
  const std::string socket_path = sandbox != nullptr ? lifecycle.SocketPathOf(id) : std::string();
  auto upstream = UpstreamFor(call.request(), target, sandbox, socket_path, api_key);
  if (!upstream) return call.Respond(std::move(upstream).error());
  upstream->set_headers.push_back({"X-Request-ID", call.request_id()});
  upstream->response_headers = call.answer_headers();
  upstream->on_error = [headers = call.answer_headers()](const Error& error) {
    http::Response response = ErrorResponse(
        MapError(Error(Code::kUnavailable, "the sandbox cannot be reached: " + error.message()),
                 Doing::kProxy));
    for (const http::Header& header : headers) response.headers.Set(header.name, header.value);
    return response;
  };
  call.exchange().Forward(std::move(*upstream));
}

}  // namespace atl::api
