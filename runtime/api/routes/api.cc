#include "runtime/api/routes/api.h"

#include <nlohmann/json.hpp>

#include <utility>

#include "runtime/api/gate/client_event.h"
#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/names_only.h"
#include "runtime/api/ingress/auth.h"
#include "runtime/api/ingress/proxy.h"
#include "runtime/api/routes/openapi.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr size_t kMaxClientEvent = 64 << 10;

// Refusals in the shape of upstream's web framework, and beside that the {code, message} of all
// other refusals.
http::Response RouteRefusal(int status, const char* code, const std::string& message,
                            const char* detail) {
  return JsonResponse(status, {{"detail", detail}, {"code", code}, {"message", message}});
}

}  // namespace

Api::Api(ApiConfig config, const Parts& parts, std::function<void()> quit)
    : config_(std::move(config)),
      parts_(parts),
      quit_(std::move(quit)),
      shares_(SystemClock(), parts.tenants, config_.limit_concurrency),
      authenticator_(config_.ingress.egress_secret, parts.directory, parts.auditor) {
  SetApiKey(config_.api_key);
  if (config_.record_pty != RecordPty::kOff) {
    recorder_ = std::make_unique<TerminalRecorder>(parts_.sandboxes, parts_.auditor,
                                                   config_.record_pty, config_.audit_refuses);
  }
  if (parts_.directory != nullptr) JudgeProxied();
  AddSandboxRoutes();
  AddImageRoutes();
  AddVolumeRoutes();
  AddSnapshotRoutes();
  AddPoolRoutes();
  AddTemplateRoutes();
  AddOperatorRoutes();
  AddDiagnosticsRoutes();
  AddNetworkRoutes();
  AddTenantRoutes();
  AddAuditRoutes();
  AddHistoryRoutes();
  AddRecordingRoutes();
  AddUsageRoutes();
}

void Api::SetApiKey(const std::string& api_key) {
  config_.api_key = config_.ingress.api_key = api_key;
  authenticator_.SetApiKey(api_key);
}

void Api::JudgeProxied() {
  keys_.holder_of = [this](const std::string& key_id) -> std::optional<tenants::Identity> {
    auto found = parts_.directory->Find(key_id);
    return found ? std::optional(*std::move(found)) : std::nullopt;
  };
  keys_.has_tenant = [this](const std::string& tenant) {
    return parts_.tenants.Find(tenant) != nullptr;
  };
  keys_.is_key = [this](std::string_view text) {
    // An unverified token may be right, and the server in the sandbox must not get it either.
    bool is_key = parts_.directory->IsTokenForUs(text);
    if (is_key) return true;
    parts_.directory->Authenticate(text, false,
                                   [&is_key](const auto& holder) { is_key = holder.has_value(); });
    return is_key;
  };
  identify_ = [this](const Call& call, std::function<void(Parsed<tenants::Identity>)> done) {
    authenticator_.Identify(call, std::move(done));
  };
  judge_ =
      std::make_unique<ProxyJudge>(config_.ingress, parts_.sandboxes.registry, &guesses_, keys_);
  admin_entries_ = std::make_unique<AdminEntries>(parts_.history);
}

bool Api::Stands(const std::string& authority) const {
  return authority.empty() || !authenticator_.has_tenants() || api::Stands(authority, keys_);
}

void Api::Handle(std::shared_ptr<http::Exchange> exchange,
                 const std::optional<tenants::Identity>& known) {
  Call call(std::move(exchange), config_.private_directories);
  const auto route = FindRoute(call.request(), config_.ingress);
  // Pages may call only if requests need a key. A server in a sandbox decides itself which pages
  // may call it.
  if (authenticator_.NeedsKey() && (!route || IsTokenRoute(*route))) {
    call.AllowOrigin();
    if (IsPreflight(call.request())) return call.Respond(PreflightResponse(call.request()));
  }
  if (route) {
    return Proxy(std::move(call), *route, parts_.sandboxes, parts_.network,
                 {.ingress = config_.ingress,
                  .api_key = config_.api_key,
                  .guesses = &guesses_,
                  .refusals = &authenticator_.refusals(),
                  .judge = judge_.get(),
                  .admin_entries = admin_entries_.get(),
                  .known = &known,
                  .identify = &identify_,
                  .auditor = parts_.auditor,
                  .recorder = recorder_.get(),
                  .shares = authenticator_.has_tenants() ? &shares_ : nullptr,
                  .base_path = config_.endpoint.base_path});
  }
  Route(std::move(call), known);
}

std::string Api::TemplateOf(const http::Request& request) const {
  const std::string_view path = request.path();
  const std::string_view version = path.starts_with("/v1/") ? path.substr(0, 3) : "";
  if (const auto route = FindRoute(request, config_.ingress)) {
    constexpr std::string_view kAll = "/{full_path:path}";
    const std::string_view of_execd =
        ParsePort(route->port) == kExecdPort ? ExecdRouteOf(route->rest) : std::string_view();
    if (!of_execd.empty()) {
      return std::string(version).append("/sandboxes/{sandbox_id}/proxy/44772").append(of_execd);
    }
    switch (route->form) {
      case RouteForm::kProxy:
        return std::string(version)
            .append("/sandboxes/{sandbox_id}/proxy/{port}")
            .append(route->rest.starts_with('/') ? kAll : "");
      case RouteForm::kUri:
        return std::string("/{sandbox_id}/{port}").append(kAll);
      case RouteForm::kHeader:
      case RouteForm::kHost:
        return std::string(kAll);
    }
  }
  const Router::Match match = router_.Find(request.method, path);
  return match.pattern.empty() ? "unknown" : std::string(version).append(match.pattern);
}

void Api::Route(Call call, const std::optional<tenants::Identity>& known) {
  Router::Match match = router_.Find(call.request().method, call.request().path());
  if (match.rights != nullptr) match.rights = &ForQuery(*match.rights, call.request().query());
  const bool open = match.rights != nullptr && match.rights->open;
  // An open route needs no key. With tenants, its answer may tell more to the holder of one.
  if (known) return Enter(std::move(call), std::move(match), *known);
  if (open && (!authenticator_.has_tenants() || KeyOf(call.request()).empty())) {
    return Answer(std::move(call), std::move(match));
  }
  if (!authenticator_.has_tenants()) {
    auto identity = authenticator_.CheckOneKey(call);
    if (!identity) return call.Respond(std::move(identity).error());
    return Enter(std::move(call), std::move(match), *identity);
  }
  authenticator_.Identify(call, [this, call, match = std::move(match),
                                 open](Parsed<tenants::Identity> identity) mutable {
    if (identity) return Enter(std::move(call), std::move(match), *identity);
    if (open) return Answer(std::move(call), std::move(match));
    call.Respond(std::move(identity).error());
  });
}

void Api::Enter(Call call, Router::Match match, const tenants::Identity& identity) {
  if (match.rights == nullptr) {
    // A path or method that does not exist is told to everybody who has a key.
    call.SetCaller({.tenant = identity.tenant,
                    .key_id = identity.key_id,
                    .role = identity.role,
                    .narrowing = identity.narrowing,
                    .subject = identity.subject});
    auto place = shares_.Enter(call.caller());
    if (!place) return call.Respond(place.error());
    call.Hold(*std::move(place));
    return Answer(std::move(call), std::move(match));
  }
  auto caller = Judge(*match.rights, identity);
  if (caller && caller->names_only) {
    auto refusal = RefuseLabelFilter(call.request().query());
    if (refusal) caller = Refuse(*std::move(refusal));
  }
  if (!caller) {
    authenticator_.refusals().Add(caller.error(), *match.rights, call.request(), call.request_id(),
                                  &identity);
    return call.Respond(std::move(caller).error());
  }
  call.SetCaller(*caller);
  auto place = shares_.Enter(*caller);
  if (!place) return call.Respond(place.error());
  call.Hold(*std::move(place));
  if (authenticator_.has_tenants()) call.exchange().SetAuthority(AuthorityOf(*caller));
  Answer(std::move(call), std::move(match));
}

void Api::Answer(Call call, Router::Match match) {
  const http::Request& request = call.request();
  const std::string_view path = request.path();
  if (match.handle != nullptr) {
    call.args = std::move(match.args);
    if (request.method != "GET" && !match.rights->action.empty()) {
      call.LogAnswer(request.method + " " + std::string(match.pattern), call.caller().key_id);
    }
    if (!BeginAudit(&call, *match.rights, match.pattern)) return;
    return (*match.handle)(std::move(call));
  }
  if (!match.other_methods.empty()) {
    std::string allowed;
    for (const std::string& method : match.other_methods) {
      allowed.append(allowed.empty() ? "" : ", ").append(method);
    }
    http::Response response = RouteRefusal(
        405, "GENERAL::METHOD_NOT_ALLOWED",
        request.method + " is not for this path; it has " + allowed, "Method Not Allowed");
    response.headers.Set("Allow", allowed);
    return call.Respond(std::move(response));
  }
  if (path.size() > 1 && path.ends_with('/')) {
    const std::string_view stripped = path.substr(0, path.size() - 1);
    const Router::Match without = router_.Find(request.method, stripped);
    if (without.handle != nullptr || !without.other_methods.empty()) {
      http::Response response;
      response.status = 307;
      std::string location(stripped);
      if (!request.query().empty()) location.append("?").append(request.query());
      response.headers.Set("Location", location);
      return call.Respond(std::move(response));
    }
  }
  call.Respond(RouteRefusal(404, "GENERAL::NOT_FOUND",
                            "there is no " + std::string(path.substr(0, 200)), "Not Found"));
}

void Api::AddMetrics(MetricSet* metrics) const {
  parts_.measurements.AddRequests(metrics);
  authenticator_.refusals().AddMetrics(metrics);
}

http::Response Api::MetricsResponse(const std::optional<std::string>& tenant) const {
  http::Response response;
  response.headers.Set("Content-Type", "text/plain; version=0.0.4");
  MetricSet metrics = parts_.collect();
  if (tenant) metrics.KeepLabelled("tenant", *tenant);
  response.body = PrometheusText(metrics);
  return response;
}

// Answers 200 in spite of troubles: running sandboxes are still served, and a load balancer that
// removed this host would disconnect their clients. With tenants, only the holder of a key hears
// what the troubles are, because they tell of the host.
void Api::GetHealth(const Call& call) {
  const bool well = parts_.health.troubles().empty();
  nlohmann::json body{{"status", well ? "healthy" : "degraded"}};
  if (!authenticator_.has_tenants() || call.has_caller()) {
    if (!well) body["troubles"] = parts_.health.troubles();
    if (config_.tell_isolation) {
      const sandbox::Isolation& isolation = parts_.sandboxes.check.isolation();
      body["isolation"] = {{"type", isolation.policy().type}, {"available", isolation.available()}};
    }
  }
  call.Respond(JsonResponse(200, body));
}

void Api::AddOperatorRoutes() {
  router_.Add("GET", "/health", [this](const Call& call) { GetHealth(call); });
  router_.Add("GET", "/version", [](const Call& call) {
    call.Respond(JsonResponse(200, {{"version", ATOLL_VERSION}}));
  });
  router_.Add("GET", "/metrics", [this](const Call& call) {
    const tenants::Caller& caller = call.caller();
    const bool all = !authenticator_.has_tenants() || caller.sees_all;
    call.Respond(MetricsResponse(all ? std::nullopt : std::optional(caller.tenant)));
  });
  router_.Add("GET", "/openapi.json", [](const Call& call) {
    http::Response response;
    response.headers.Set("Content-Type", "application/json");
    response.body = OpenApiDocument();
    call.Respond(std::move(response));
  });
  router_.Add("GET", "/backup", [this](const Call& call) {
    parts_.backup([call](Result<std::string> text) {
      if (!text) return call.Respond(MapError(text.error(), Doing::kBackup));
      http::Response response;
      response.headers.Set("Content-Type", "application/json");
      response.headers.Set("Cache-Control", "no-store");
      response.body = std::move(*text);
      call.Respond(std::move(response));
    });
  });
  router_.Add("POST", "/metrics/events", [this](const Call& call) {
    call.exchange().ReadBody(kMaxClientEvent, [this, call](Result<std::string> body) {
      if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
      auto event = ParseClientEvent(*body);
      if (!event) return call.Respond(std::move(event).error());
      parts_.measurements.AddClientEvent(*event, SdkOf(call.request().headers.Get("User-Agent")));
      call.Respond(EmptyResponse(204));
    });
  });
  router_.Add("POST", "/shutdown", [this](const Call& call) { Shutdown(call); });
}

void Api::Shutdown(const Call& call) {
  bool all = false;
  for (const auto& [name, value] : http::ParseQuery(call.request().query())) {
    if (name == "all") all = value == "true" || value == "1";
  }
  if (!all) {
    call.Respond(JsonResponse(200, {{"status", "stopping"}, {"sandboxes", "left running"}}));
    return quit_();
  }
  parts_.sandboxes.Shutdown([this, call](Status done) {
    if (!done) {
      call.Respond(MapError(done.error(), Doing::kShutdown));
    } else {
      call.Respond(JsonResponse(200, {{"status", "stopping"}, {"sandboxes", "removed"}}));
    }
    quit_();
  });
}

}  // namespace atl::api
