#include "runtime/api/ingress/proxy_judge.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/json.h"
#include "runtime/api/ingress/auth.h"
#include "runtime/api/ingress/egress_api.h"
#include "runtime/api/ingress/proxy.h"
#include "runtime/base/same_secret.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/http/ascii.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

// The headers in which endpoints tell tokens.
constexpr const char* kTokenHeaders[] = {kExecdTokenHeader, kEgressTokenHeader,
                                         kSecureAccessHeader};
constexpr std::string_view kKeyPrefix = "atl_";
constexpr char kReason[] = "reason";
constexpr size_t kMostOfReason = 200;

tl::unexpected<http::Response> Missing() {
  return Refuse(401, "MISSING_API_KEY",
                "Authentication credentials are missing. Send an API key in the "
                "OPEN-SANDBOX-API-KEY header or as a bearer token, or the headers that GET "
                "/sandboxes/{id}/endpoints/{port} tells.");
}

// One text for every cause, so that nobody learns from it which keys and sandboxes exist.
tl::unexpected<http::Response> Invalid() {
  return Refuse(401, "INVALID_API_KEY",
                "Authentication credentials are invalid. Check the API key, or ask for the "
                "endpoint again and send the headers that it tells.");
}

std::string ReasonOf(std::string_view rest) {
  const size_t query = rest.find('?');
  std::string reason;
  if (query == std::string_view::npos) return reason;
  for (auto& [name, value] : http::ParseQuery(rest.substr(query + 1))) {
    if (name == kReason) reason = std::move(value);
  }
  // Blanks do not make a reason.
  const auto is_text = [](char c) { return static_cast<unsigned char>(c) > ' '; };
  reason.erase(std::find_if(reason.rbegin(), reason.rend(), is_text).base(), reason.end());
  reason.erase(reason.begin(), std::find_if(reason.begin(), reason.end(), is_text));
  return reason.substr(0, kMostOfReason);
}

}  // namespace

// The sender of a request, as its tokens tell.
struct ProxyJudge::Shown {
  std::optional<tenants::Identity> holder;
  bool other_tokens = false;  // tokens of another form than the endpoint's
};

ProxyJudge::ProxyJudge(const IngressConfig& ingress, const sandbox::Registry& registry,
                       GuessLimit* guesses, KeyLookup keys)
    : ingress_(ingress),
      registry_(registry),
      guesses_(guesses),
      keys_(std::move(keys)),
      tokens_(ingress.egress_secret) {}

std::string_view ProxyJudge::KeyShown(const http::Request& request, const Route& route) {
  const std::string_view key = request.headers.Get(kApiKeyHeader);
  if (!key.empty()) return key;
  const std::string_view bearer = BearerOf(request.headers);
  if (bearer.starts_with(kKeyPrefix)) return bearer;
  const bool other = !route.signature.empty() ||
                     std::any_of(std::begin(kTokenHeaders), std::end(kTokenHeaders),
                                 [&](const char* name) { return request.headers.Has(name); });
  return other ? std::string_view() : bearer;
}

std::string_view ProxyJudge::KeyBeside(const http::Request& request) const {
  if (!keys_.is_key) return {};
  for (const http::Header& header : request.headers.list) {
    if (!http::EqualNoCase(header.name, "Authorization")) continue;
    const std::string_view bearer = BearerIn(header.value);
    if (!bearer.empty() && keys_.is_key(bearer)) return bearer;
  }
  return {};
}

Parsed<ProxyJudge::Shown> ProxyJudge::ReadTokens(const http::Request& request,
                                                 std::string_view id) const {
  Shown shown;
  std::string key_id;
  for (const char* name : kTokenHeaders) {
    const std::string_view token = request.headers.Get(name);
    if (token.empty()) continue;
    if (!EndpointTokens::IsToken(token)) {
      shown.other_tokens = true;
      continue;
    }
    auto named = tokens_.KeyIdOf(token, id);
    if (!named || (!key_id.empty() && key_id != *named)) return Invalid();
    key_id = *std::move(named);
  }
  if (key_id.empty()) return shown;
  shown.holder = keys_.holder_of(key_id);
  if (!shown.holder) return Invalid();
  return shown;
}

bool ProxyJudge::HasFormerTokens(const http::Request& request, int port,
                                 const sandbox::Sandbox& sandbox) const {
  const std::string& key = ingress_.former_api_key;
  if (key.empty()) return false;
  const auto holds = [&](const char* name, const std::string& secret) {
    return !secret.empty() && SameSecret(request.headers.Get(name), TokenFor(key, secret));
  };
  const bool secure = holds(kSecureAccessHeader, sandbox.secure_token);
  if (!sandbox.secure_token.empty() && !secure) return false;
  if (port == kExecdPort) return holds(kExecdTokenHeader, sandbox.access_token);
  if (port == kEgressPort) {
    return SameSecret(request.headers.Get(kEgressTokenHeader),
                      EgressToken(ingress_.egress_secret, key, sandbox.id));
  }
  return secure;
}

Parsed<tenants::Caller> ProxyJudge::Anonymous(const http::Request& request, const Route& route,
                                              int port, const Shown& shown, bool verified,
                                              int64_t unix_ms) const {
  const std::string id(route.id);
  const sandbox::Sandbox* sandbox =
      ValidSandboxId(id) ? registry_.Find(tenants::Caller::Daemon(), id) : nullptr;
  bool enters = false;
  if (shown.other_tokens) {
    enters = sandbox != nullptr && HasFormerTokens(request, port, *sandbox);
    if (!enters) return Invalid();
  } else if (!route.signature.empty() && port != kExecdPort && port != kEgressPort) {
    const bool is_short = route.signature.size() == kShortSignature;
    if ((is_short || !verified) &&
        !guesses_->Try(route.id, request.peer, route.signature, verified, unix_ms)) {
      return Refuse(TooManyGuesses());
    }
    if (!verified) return Invalid();
    enters = true;
  }
  if (!enters) return Missing();
  // Whoever has the signature of a sandbox that is gone learns that it is gone, as its owner does.
  tenants::Caller caller{.tenant = sandbox == nullptr ? std::string() : sandbox->tenant,
                         .role = tenants::Role::kDeveloper};
  if (!caller.tenant.empty() && !keys_.has_tenant(caller.tenant)) return Invalid();
  return caller;
}

Parsed<Entry> ProxyJudge::Judge(const http::Request& request, const Route& route, int port,
                                std::optional<tenants::Identity>* holder, int64_t unix_ms) const {
  auto shown = ReadTokens(request, route.id);
  if (!shown) return Refuse(std::move(shown).error());
  // The holder of the key acts, whoever else has got a token of this sandbox.
  if (!*holder) *holder = std::move(shown->holder);
  const bool verified = IsSigned(route, port, ingress_);
  Entry entry;
  entry.key = KeyShown(request, route);
  entry.other_key = KeyBeside(request);
  entry.rest = verified ? route.rest_if_signed : route.rest;
  entry.rights = &RightsAtPort(port, request.method, entry.rest);
  const std::string id(route.id);
  const bool valid = ValidSandboxId(id);
  const auto find = [&](const tenants::Caller& caller) {
    return valid ? registry_.Find(caller, id) : nullptr;
  };
  if (!*holder) {
    auto caller = Anonymous(request, route, port, *shown, verified, unix_ms);
    if (!caller) return Refuse(std::move(caller).error());
    entry.caller = *std::move(caller);
    entry.sandbox = find(entry.caller);
  } else {
    const bool asks_why = entry.rights->Of((*holder)->role) == Reach::kOwnOrReason;
    std::string reason = asks_why ? ReasonOf(entry.rest) : std::string();
    auto caller = api::Judge(*entry.rights, **holder, reason);
    if (!caller) return Refuse(std::move(caller).error());
    entry.caller = *std::move(caller);
    entry.sandbox = find(entry.caller);
    const bool former = entry.sandbox != nullptr && HasFormerTokens(request, port, *entry.sandbox);
    if (shown->other_tokens && !former) return Invalid();
    const bool foreign = entry.sandbox != nullptr && entry.sandbox->tenant != entry.caller.tenant;
    if (asks_why && foreign) entry.reason = std::move(reason);
    if (asks_why && !foreign) entry.caller.sees_all = false;
    if (asks_why && entry.sandbox == nullptr && find(tenants::Caller::Daemon()) != nullptr) {
      return Refuse(JsonResponse(
          403,
          {{"code", "FORBIDDEN"},
           {"message", "sandbox " + id +
                           " belongs to another tenant; say why you enter it with ?reason= "
                           "and at least " +
                           std::to_string(kMinReason) + " characters, which its owner will read"},
           {"needs", "reason"}}));
    }
  }
  if (verified && HasExpired(route, unix_ms)) {
    return Refuse(401, "MISSING_OR_INVALID_SECURE_ACCESS", "the signed route has expired");
  }
  return entry;
}

std::string AuthorityOf(const tenants::Caller& caller) {
  std::string authority = caller.key_id;
  authority.append("\n").append(tenants::RoleName(caller.role));
  return authority.append("\n").append(caller.tenant);
}

bool Stands(const std::string& authority, const KeyLookup& keys) {
  const std::string key_id = authority.substr(0, authority.find('\n'));
  if (key_id.empty()) {
    const std::string tenant = authority.substr(authority.rfind('\n') + 1);
    return tenant.empty() || keys.has_tenant(tenant);
  }
  const auto identity = keys.holder_of(key_id);
  return identity && AuthorityOf({.tenant = identity->tenant,
                                  .key_id = identity->key_id,
                                  .role = identity->role}) == authority;
}

std::string WithoutReason(std::string_view target) {
  const size_t query = std::min(target.find('?'), target.size());
  std::string kept(target.substr(0, query));
  char mark = '?';
  std::string_view rest = target.substr(std::min(query + 1, target.size()));
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const auto parsed = http::ParseQuery(pair);
    if (parsed.size() == 1 && parsed.front().first == kReason) continue;
    kept.append(1, mark).append(pair);
    mark = '&';
  }
  return kept;
}

}  // namespace atl::api
