#include "runtime/api/ingress/ingress.h"

#include <algorithm>
#include <charconv>

#include "runtime/api/ingress/auth.h"
#include "runtime/base/same_secret.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/http/ascii.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr size_t kIdLength = 36;
constexpr size_t kMaxExpiryLength = 13;
// Browsers resolve all names below localhost to this host (RFC 6761 section 6.3), so each port gets
// an origin without configuration.
constexpr char kLoopbackDomain[] = "localhost";

bool IsBase36(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); });
}

bool LooksSigned(std::string_view expires36, std::string_view signature) {
  return !expires36.empty() && expires36.size() <= kMaxExpiryLength && IsBase36(expires36) &&
         (signature.size() == kShortSignature || signature.size() == kLongSignature) &&
         IsBase36(signature);
}

// Removes and returns the text before the first of `ends`.
std::string_view TakeUntil(std::string_view* text, std::string_view ends) {
  const size_t end = std::min(text->find_first_of(ends), text->size());
  const std::string_view taken = text->substr(0, end);
  text->remove_prefix(end);
  return taken;
}

std::optional<Route> ProxyForm(std::string_view target) {
  constexpr std::string_view kPrefix = "/v1/";
  constexpr std::string_view kSandboxes = "/sandboxes/";
  constexpr std::string_view kProxy = "/proxy/";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size() - 1);
  if (!target.starts_with(kSandboxes)) return std::nullopt;
  target.remove_prefix(kSandboxes.size());
  Route route;
  route.id = TakeUntil(&target, "/?");
  if (!target.starts_with(kProxy)) return std::nullopt;
  target.remove_prefix(kProxy.size());
  route.port = TakeUntil(&target, "/?");
  route.rest = target;
  return route;
}

std::optional<Route> UriForm(std::string_view target) {
  if (target.size() < kIdLength + 2 || target[kIdLength + 1] != '/') return std::nullopt;
  Route route;
  route.form = RouteForm::kUri;
  route.id = target.substr(1, kIdLength);
  if (!ValidSandboxId(std::string(route.id))) return std::nullopt;
  target.remove_prefix(kIdLength + 2);
  route.port = TakeUntil(&target, "/?");
  route.rest = target;
  const auto segment = [&target]() -> std::string_view {
    if (!target.starts_with('/')) return {};
    target.remove_prefix(1);
    return TakeUntil(&target, "/?");
  };
  const std::string_view expires36 = segment();
  const std::string_view signature = segment();
  if (LooksSigned(expires36, signature)) {
    route.expires36 = expires36;
    route.signature = signature;
    route.rest_if_signed = target;
  }
  return route;
}

// Parses "{id}-{port}" or "{id}-{port}-{expiry}-{signature}".
std::optional<Route> NamedForm(RouteForm form, std::string_view name, std::string_view target) {
  if (name.size() < kIdLength + 2 || name[kIdLength] != '-') return std::nullopt;
  Route route;
  route.form = form;
  route.id = name.substr(0, kIdLength);
  if (!ValidSandboxId(std::string(route.id))) return std::nullopt;
  name.remove_prefix(kIdLength + 1);
  route.port = TakeUntil(&name, "-");
  route.rest = route.rest_if_signed = target;
  if (name.empty()) return route;
  name.remove_prefix(1);
  route.expires36 = TakeUntil(&name, "-");
  if (name.size() < 2) return std::nullopt;
  route.signature = name.substr(1);
  return route;
}

std::optional<Route> HostForm(const http::Request& request, std::string_view domain) {
  if (domain.empty()) return std::nullopt;
  std::string_view host = request.headers.Get("Host");
  const std::string_view label = TakeUntil(&host, ".:");
  if (!host.starts_with('.')) return std::nullopt;
  host.remove_prefix(1);
  if (!http::EqualNoCase(TakeUntil(&host, ":"), domain)) return std::nullopt;
  return NamedForm(RouteForm::kHost, label, request.target);
}

constexpr char kExpired[] = "the signed route has expired";

tl::unexpected<http::Response> Unauthorised(const std::string& why) {
  return Refuse(401, "MISSING_OR_INVALID_SECURE_ACCESS",
                why +
                    "; ask the server for the endpoint and send what its 'headers' say, or for a "
                    "signed one with 'expires'");
}

}  // namespace

std::optional<Route> FindRoute(const http::Request& request, const IngressConfig& config) {
  const std::string_view named = request.headers.Get(kIngressHeader);
  if (!named.empty()) {
    if (auto route = NamedForm(RouteForm::kHeader, named, request.target)) return route;
  }
  if (auto route = HostForm(request, config.domain)) return route;
  if (auto route = HostForm(request, kLoopbackDomain)) return route;
  if (auto route = ProxyForm(request.target)) return route;
  return UriForm(request.target);
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

bool IsTokenRoute(const Route& route) {
  const auto port = ParsePort(route.port);
  if (port == kEgressPort) return true;
  if (port != kExecdPort) return false;
  // Paths below execd's /proxy/ lead to servers of the sandbox again. execd compares decoded paths.
  constexpr std::string_view kProxy = "/proxy";
  for (const std::string_view rest : {route.rest, route.rest_if_signed}) {
    std::string path;
    if (!http::PercentDecode(rest.substr(0, rest.find('?')), &path)) return false;
    if (path.find(kProxy) != std::string::npos) return false;
  }
  return true;
}

bool IsSigned(const Route& route, int port, const IngressConfig& config) {
  const bool is_short = route.signature.size() == kShortSignature;
  return !route.signature.empty() && (!is_short || config.short_signatures) &&
         VerifyRoute(config.keys, route.id, port, route.expires36, route.signature);
}

bool HasExpired(const Route& route, int64_t unix_ms) {
  const auto expires = FromBase36(route.expires36);
  return expires && *expires <= static_cast<uint64_t>(unix_ms) / 1000;
}

http::Response TooManyGuesses() {
  return ErrorResponse({429, "SANDBOX::TOO_MANY",
                        "too many wrong signatures for this sandbox from this address",
                        static_cast<int>(GuessLimit::kMillisEach / 1000)});
}

Parsed<std::string_view> Admit(const http::Request& request, const Route& route, int port,
                               const sandbox::Sandbox& sandbox, const IngressConfig& config,
                               int64_t unix_ms, GuessLimit* guesses) {
  const bool is_short = route.signature.size() == kShortSignature;
  const bool verified = IsSigned(route, port, config);
  const std::string_view rest = verified ? route.rest_if_signed : route.rest;
  if (sandbox.secure_token.empty()) {
    // Without secure access a signature is not required, so a client could leave it out. A given
    // link still ends at its expiry.
    if (verified && HasExpired(route, unix_ms)) return Unauthorised(kExpired);
    return rest;
  }
  if (const std::string_view given = request.headers.Get(kSecureAccessHeader); !given.empty()) {
    if (SameSecret(given, TokenFor(config.api_key, sandbox.secure_token))) return rest;
    return Unauthorised(std::string("the token in ") + kSecureAccessHeader +
                        " is not the sandbox's");
  }
  if (route.signature.empty()) {
    return Unauthorised("sandbox " + sandbox.id + " has secure access, and the request neither a " +
                        kSecureAccessHeader + " header nor a signature");
  }
  if (!FromBase36(route.expires36)) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER",
                  "the expiry of the signed route is not a number in base 36");
  }
  if ((is_short || !verified) &&
      !guesses->Try(route.id, request.peer, route.signature, verified, unix_ms)) {
    return Refuse(TooManyGuesses());
  }
  if (!verified) {
    return Unauthorised(is_short && !config.short_signatures
                            ? "this server signs routes with more than 32 bits"
                            : "the signature of the route is wrong");
  }
  if (HasExpired(route, unix_ms)) return Unauthorised(kExpired);
  return rest;
}

}  // namespace atl::api
