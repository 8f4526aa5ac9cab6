#include "runtime/api/ingress/proxy.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/api/gate/command_facts.h"
#include "runtime/api/gate/credential.h"
#include "runtime/api/gate/error_map.h"
#include "runtime/api/ingress/auth.h"
#include "runtime/api/ingress/egress_api.h"
#include "runtime/api/ingress/proxied_answer.h"
#include "runtime/base/clock.h"
#include "runtime/base/same_secret.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/http/ascii.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

// "skip": this access does not renew the sandbox's deadline.
constexpr char kAccessRenewHeader[] = "OpenSandbox-Access-Renew";

constexpr std::string_view kPortOpen = "port.open";
// The prefix in execd's path space of the port that the daemon answers itself.
constexpr std::string_view kEgressPrefix = "/proxy/18080";

// Headers that admit a request. They are not forwarded to the server in the sandbox.
constexpr const char* kNeverPassed[] = {kApiKeyHeader,      kSecureAccessHeader,
                                        kIngressHeader,     sandbox::kExecdInternalHeader,
                                        kEgressTokenHeader, kAccessRenewHeader};
constexpr const char* kForwarded[] = {"Forwarded",        "X-Forwarded-For",   "X-Forwarded-Host",
                                      "X-Forwarded-Port", "X-Forwarded-Proto", "X-Real-IP"};
// Headers that belong to an origin. In the shared forms a browser sees one origin for all sandboxes
// of this daemon, so a value set by one sandbox must not reach another. In the host form each port
// has its own origin.
constexpr const char* kOfSharedOrigin[] = {"Authorization", "Cookie"};

// Returns true if a segment of the path is "." or "..", in any spelling. Only their prefix
// distinguishes execd's own paths from the paths that it proxies, and the token that the daemon
// adds opens both. So nobody may normalise "/proxy/80/../../command" into execd's own path.
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

// Decodes a path as execd does before it compares; empty if execd would refuse it.
std::string DecodedPath(std::string_view target) {
  std::string decoded;
  return http::PercentDecode(target.substr(0, target.find('?')), &decoded) ? decoded : "";
}

bool IsForDaemonOnly(std::string_view rest) {
  const std::string path = DecodedPath(rest);
  return path.starts_with(sandbox::kExecdInternalRoute) || path.starts_with(wire::kSessionRoute);
}

// Shorter keys may occur in a URL by chance.
constexpr size_t kMinKeyToSearchFor = 16;

// Returns true if the URL contains the API key, plain or escaped. Its sender meant the daemon, but
// the server in the sandbox would read it.
bool TellsKey(std::string_view rest, std::string_view api_key) {
  if (api_key.size() < kMinKeyToSearchFor) return false;
  if (rest.find(api_key) != std::string_view::npos) return true;
  return DecodeEscapes(rest).find(api_key) != std::string::npos;
}

// Returns true if the value of a header contains something that admits to Atoll. Without tenants
// that is the one key; with tenants also everything in the form of a key or an endpoint's token.
bool HoldsSecret(std::string_view value, const ProxyRules& rules) {
  const auto holds = [value](std::string_view key) {
    return !key.empty() && value.find(key) != std::string_view::npos;
  };
  if (holds(rules.api_key)) return true;
  return rules.entry != nullptr && (holds(rules.entry->other_key) || HoldsCredential(value));
}

// Sets the headers by which a server identifies its client. Only what the daemon knows of the
// connection is forwarded; a client could otherwise impersonate anybody.
void SetForwarded(const http::Request& request, http::Upstream* upstream) {
  upstream->drop_headers.insert(upstream->drop_headers.end(), std::begin(kForwarded),
                                std::end(kForwarded));
  const auto set = [&](const char* name, std::string value) {
    if (!value.empty()) upstream->set_headers.push_back({name, std::move(value)});
  };
  set("X-Forwarded-Proto", request.tls ? "https" : "http");
  set("X-Forwarded-Host", std::string(request.headers.Get("Host")));
  set("X-Forwarded-For", request.peer.substr(0, request.peer.rfind(':')));
}

// The same answer as execd's, because clients know it.
http::Response WrongToken() {
  http::Response response;
  response.status = 401;
  response.headers.Set("Content-Type", "application/json; charset=utf-8");
  response.body = std::string(R"({"error":"Unauthorized: invalid or missing header )") +
                  kExecdTokenHeader + "\"}";
  return response;
}

// True for an answer that counts as use of the sandbox. Refusals do not count: strangers must not
// keep a sandbox alive or awake with them.
bool IsGood(int status) {
  return status == 101 || (status >= 200 && status < 400);
}

ApiError InvalidPort(const Route& route) {
  return {400, "DOCKER::INVALID_PORT",
          "port '" + std::string(route.port.substr(0, 16)) + "': use 1 to 65535"};
}

ApiError Gone(const std::string& id) {
  return {404, "DOCKER::SANDBOX_NOT_FOUND",
          "sandbox " + id + " not found: it has been deleted or has expired"};
}

// Returns true if a browser will show the answer as a page, or in a frame. Browsers send
// Sec-Fetch-Dest only to origins that they trust.
bool IsNavigation(const http::Request& request) {
  const std::string_view shown = request.headers.Get("Sec-Fetch-Dest");
  return request.method == "GET" && (shown == "document" || shown == "iframe" ||
                                     request.headers.Get("Upgrade-Insecure-Requests") == "1");
}

// Returns the requested address in the host form, if that form reaches this daemon.
std::string OwnOrigin(const http::Request& request, const Route& route, const std::string& port,
                      bool is_signed, std::string_view rest, const IngressConfig& ingress) {
  std::string name = std::string(route.id) + "-" + port;
  if (is_signed) name.append("-").append(route.expires36).append("-").append(route.signature);
  if (name.size() > kMaxLabel) return {};
  const std::string path = (rest.starts_with('/') ? "" : "/") + std::string(rest);
  const char* scheme = request.tls ? "https://" : "http://";
  if (ingress.told == RouteForm::kHost) return scheme + name + "." + ingress.address + path;
  // Browsers resolve all names below localhost to this machine. Nobody has a certificate for such
  // names.
  const std::string_view host = request.headers.Get("Host");
  for (const std::string_view here : {"127.0.0.1", "localhost", "[::1]"}) {
    const std::string_view behind = host.substr(std::min(here.size(), host.size()));
    if (request.tls || !host.starts_with(here)) continue;
    if (behind.empty() || behind.front() == ':') {
      return "http://" + name + ".localhost" + std::string(behind) + path;
    }
  }
  return {};
}

constexpr char kSignalPath[] = "/entrypoint/signal";

// Returns true for a request to execd that begins a command, code or a terminal.
bool BeginsCommand(const std::string& method, std::string_view path) {
  if (method != "POST") return false;
  const bool in_session =
      path.starts_with("/session/") || path.starts_with("/v1/isolated/session/");
  return path == "/command" || path == "/code" || path == "/pty" ||
         (in_session && path.ends_with("/run"));
}

// Forwards the request into a running sandbox.
void ForwardInto(const Call& call, const std::string& id, sandbox::Sandboxes& sandboxes,
                 std::shared_ptr<sandbox::IdleWatch::Request> use, http::Upstream upstream) {
  const bool renews = !http::EqualNoCase(call.request().headers.Get(kAccessRenewHeader), "skip");
  upstream.held = use;
  const std::string path = DecodedPath(upstream.target);
  if (path.starts_with(sandbox::kSessionPaths)) sandboxes.changes.OpenSessions(call.caller(), id);
  if (path == kSignalPath && call.Parameter("stop") == "true")
    sandboxes.endings.Stopping(call.caller(), id);
  const std::shared_ptr<AuditEntry> entry = call.audit();
  if (entry && entry->TakesBody()) {
    upstream.on_request_body = [entry](std::string_view piece) { entry->TakeBody(piece); };
  }
  upstream.edit_response = [caller = call.caller(), entry,
                            confine = std::move(upstream.edit_response),
                            ours = call.answering().headers, use = std::move(use), renews, id,
                            is_command = BeginsCommand(call.request().method, path),
                            &sandboxes](int status, http::Headers* fields) {
    if (IsGood(status)) {
      const sandbox::Sandbox* const sandbox = sandboxes.registry.Look(id);
      if (is_command && sandbox != nullptr) sandboxes.meter.OnCommand(*sandbox);
      if (use) use->Count();
      if (renews) sandboxes.changes.Touch(caller, id);
    }
    confine(status, fields);
    if (status < 200 && status != 101) return;
    if (entry) entry->Answered(status);
    for (const http::Header& header : ours) fields->Set(header.name, header.value);
  };
  // The callbacks copy parts of the call, not the call, because the exchange counts as in flight
  // while anybody holds it. kResourceExhausted is the daemon's own error; all other errors come
  // from the sandbox.
  const auto exhausted = [](const Error& error) {
    return error.code() == Code::kResourceExhausted;
  };
  upstream.await_reason = [caller = call.caller(), exhausted, id, &sandboxes](
                              const Error& error, std::function<void()> go_on) {
    exhausted(error) ? go_on() : sandboxes.endings.AwaitEnd(caller, id, std::move(go_on));
  };
  const auto failure = [caller = call.caller(), exhausted, id,
                        &sandboxes](const Error& error) -> ApiError {
    const sandbox::Sandbox* const sandbox = sandboxes.registry.Find(caller, id);
    if (sandbox == nullptr) return Gone(id);
    if (!exhausted(error) && sandbox::IsOver(sandbox->state)) return NotRunning(*sandbox);
    return MapError(Error(exhausted(error) ? error.code() : Code::kUnavailable,
                          "the sandbox cannot be reached: " + error.message()),
                    Doing::kProxy);
  };
  upstream.on_error = [failure, entry, answering = call.answering()](const Error& error) {
    const ApiError why = failure(error);
    if (entry) entry->Answered(why.status, why.code);
    return answering.Failure(why);
  };
  call.exchange().Forward(std::move(upstream));
}

}  // namespace

Parsed<http::Upstream> UpstreamFor(const http::Request& request, const Route& route,
                                   const sandbox::Sandbox* sandbox, const std::string& socket_path,
                                   const ProxyRules& rules) {
  const auto port = ParsePort(route.port);
  if (!port) return Refuse(ErrorResponse(InvalidPort(route)));
  if (sandbox == nullptr && rules.gone) {
    return Refuse(ErrorResponse(Gone(std::string(route.id))));
  }
  if (sandbox == nullptr) {
    return Refuse(404, "DOCKER::SANDBOX_NOT_FOUND",
                  "sandbox '" + std::string(route.id.substr(0, 64)) + "' not found");
  }
  Parsed<std::string_view> admitted;
  if (rules.entry != nullptr) {
    admitted = rules.entry->rest;
  } else {
    admitted = Admit(request, route, *port, *sandbox, rules.ingress, rules.unix_ms, rules.guesses);
  }
  if (!admitted) return Refuse(std::move(admitted).error());
  const std::string_view rest = *admitted;
  if (sandbox->state != sandbox::State::kRunning && !sandbox::Wakes(*sandbox)) {
    return Refuse(ErrorResponse(NotRunning(*sandbox)));
  }
  if (*port != kExecdPort && HasDotSegment(rest)) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER",
                  "the path holds a '.' or '..' segment, or a malformed escape; send it resolved");
  }
  const Entry* entry = rules.entry;
  if (TellsKey(rest, rules.api_key) ||
      (entry != nullptr && (TellsKey(rest, entry->other_key) || HoldsCredential(rest)))) {
    return Refuse(
        400, "SANDBOX::INVALID_PARAMETER",
        std::string("the URL holds an API key or token, which the sandbox would see; send it in "
                    "the header ") +
            kApiKeyHeader);
  }
  http::Upstream upstream;
  upstream.socket_path = socket_path;
  const std::string port_text = std::to_string(*port);
  if (*port != kExecdPort) upstream.target = "/proxy/" + port_text;
  if (!sandbox->access_token.empty()) {
    const std::string_view given = request.headers.Get(kExecdTokenHeader);
    // The holder of the API key may ask for any sandbox's token, so the key is accepted in its
    // place. Clients older than the endpoint's headers cannot pass the token on, but can send the
    // key.
    const bool right =
        *port != kExecdPort || rules.entry != nullptr ||
        SameSecret(given, TokenFor(rules.ingress.api_key, sandbox->access_token)) ||
        (!request.headers.Has(kExecdTokenHeader) && HoldsKey(request, rules.ingress.api_key));
    // execd would refuse too, but only after the sandbox had been resumed for the request.
    if (!right) return Refuse(WrongToken());
    // execd keeps one token for its life. The client's token changes with the API key.
    upstream.set_headers.push_back({kExecdTokenHeader, sandbox->access_token});
  }
  if (*port == kExecdPort && IsForDaemonOnly(rest)) {
    return Refuse(404, "GENERAL::NOT_FOUND", "there is no such path for clients");
  }
  if (!rest.starts_with('/')) upstream.target.push_back('/');
  upstream.target.append(rest);
  if (rules.entry != nullptr) {
    if (!rules.entry->reason.empty()) upstream.target = WithoutReason(upstream.target);
    if (sandbox->access_token.empty()) upstream.drop_headers.push_back(kExecdTokenHeader);
  }
  upstream.drop_headers.insert(upstream.drop_headers.end(), std::begin(kNeverPassed),
                               std::end(kNeverPassed));
  if (route.form != RouteForm::kHost) {
    upstream.drop_headers.insert(upstream.drop_headers.end(), std::begin(kOfSharedOrigin),
                                 std::end(kOfSharedOrigin));
  }
  for (const http::Header& header : request.headers.list) {
    if (HoldsSecret(header.value, rules)) upstream.drop_headers.push_back(header.name);
  }
  // A server that checks Host compares it with the address that it listens on.
  ProxiedAnswer answer;
  answer.inside = "localhost:" + port_text;
  upstream.set_headers.push_back({"Host", answer.inside});
  SetForwarded(request, &upstream);
  upstream.set_headers.push_back({"X-Request-ID", std::string(rules.request_id)});
  answer.form = route.form;
  answer.of_execd = *port == kExecdPort;
  answer.tls = request.tls;
  answer.host = request.headers.Get("Host");
  const std::string_view before(request.target.data(), request.target.size() - rest.size());
  if (!before.empty()) answer.prefix.append(rules.base_path).append(before);
  answer.path = rest.substr(0, rest.find('?'));
  if (answer.path.empty()) answer.path = "/";
  answer.is_page = IsNavigation(request);
  answer.name = sandbox->id + " " + port_text;
  const bool is_signed = !route.signature.empty() && rest.data() == route.rest_if_signed.data();
  answer.own_origin = OwnOrigin(request, route, port_text, is_signed, rest, rules.ingress);
  const auto shared = std::make_shared<const ProxiedAnswer>(std::move(answer));
  upstream.edit_response = [shared](int status, http::Headers* fields) {
    shared->Confine(status, fields);
  };
  if (!shared->of_execd && shared->MayTellDebugger()) {
    upstream.edit_body = [shared](std::string body, int*, http::Headers*) {
      return shared->TellDebugger(std::move(body));
    };
  } else if (shared->MayNeedOrigin()) {
    // A compressed body could not be read here.
    upstream.set_headers.push_back({"Accept-Encoding", "identity"});
    upstream.edit_body = [shared](std::string body, int* status, http::Headers* fields) {
      auto explained = shared->ExplainOrigin(*fields, body);
      if (!explained) return body;
      *status = 409;
      fields->Set("Content-Type", "text/html; charset=utf-8");
      fields->Set("Cache-Control", "no-store");
      fields->Remove("Content-Security-Policy");
      return *std::move(explained);
    };
  }
  // Headers derived from the request (Host, request id) may contain the key too.
  std::erase_if(upstream.set_headers,
                [&rules](const http::Header& header) { return HoldsSecret(header.value, rules); });
  return upstream;
}

namespace {

// Begins the line of the audit log about a request to a port of the sandbox `id`. `target` is what
// execd gets, or the target behind port 18080. Returns false if the call was refused, because its
// event could not be recorded.
bool AuditProxied(Call* call, const std::string& id, int port, std::string_view target,
                  const Rights& rights, const std::shared_ptr<Auditor>& auditor) {
  const http::Request& request = call->request();
  const audit::Level level = auditor->LevelOf(rights.action);
  if (rights.action.empty() || level == audit::Level::kNone) return true;
  const bool is_port = rights.action == kPortOpen;
  const bool may = auditor->log().MayAct() || !NeedsAudit(request.method, rights.action);
  // The port of "/proxy/8080/x" and "/forward/8080".
  std::string name = std::to_string(port);
  if (is_port && port == kExecdPort) {
    const std::string_view behind = target.substr(std::min(target.find('/', 1), target.size() - 1));
    name = behind.substr(1, std::min(behind.find_first_of("/?", 1), behind.size()) - 1);
  }
  if (is_port && may && !auditor->IsFirstUse(call->caller().key_id, id, name)) return true;
  const auto entry = std::make_shared<AuditEntry>(auditor, request, call->request_id(),
                                                  rights.action, call->caller());
  entry->SetTarget("sandbox", id);
  if (is_port) entry->AddFact("port", name);
  if (rights.action.starts_with("file.") && level >= audit::Level::kArgv) {
    if (const std::string path = call->Parameter("path"); !path.empty()) {
      entry->AddFact("path_hmac", auditor->Hmac(path));
      if (level == audit::Level::kFull) entry->AddFact("path", WithoutSecrets(path));
    }
  }
  call->Audit(entry);
  if (!may) call->Respond(AuditUnavailable());
  return may;
}

// Answers a request that nothing but the sandbox and the form of the request can refuse any more.
// `entry.sandbox` null: the caller knows no such sandbox.
void Enter(Call call, const Route& route, int port, const Entry& entry,
           sandbox::Sandboxes& sandboxes, netpolicy::Network& network, const ProxyRules& rules) {
  const std::string id(route.id);
  const std::string socket_path =
      entry.sandbox != nullptr ? sandboxes.registry.SocketPathOf(id) : std::string();
  auto upstream = UpstreamFor(call.request(), route, entry.sandbox, socket_path, rules);
  if (!upstream) {
    if (upstream.error().status == 401) {
      rules.refusals->Add(Refusals::Reason::kSandboxToken, call.request(), call.request_id(), id);
    }
    return call.Respond(std::move(upstream).error());
  }
  // The owner's share, because a request without a key may reach the sandbox, too.
  if (rules.shares != nullptr) {
    auto place = rules.shares->Hold(entry.sandbox->tenant);
    if (!place) return call.Respond(place.error());
    call.Hold(*std::move(place));
  }
  const std::string_view behind =
      port == kEgressPort ? std::string_view(upstream->target).substr(kEgressPrefix.size())
                          : std::string_view(upstream->target);
  if (rules.auditor) {
    const Rights& rights =
        entry.rights != nullptr ? *entry.rights : RightsAtPort(port, call.request().method, behind);
    if (!AuditProxied(&call, id, port, behind, rights, rules.auditor)) return;
  }
  if (call.audit() && !entry.reason.empty()) {
    call.audit()->AddFact("reason", WithoutSecrets(entry.reason));
  }
  if (rules.recorder != nullptr && port == kExecdPort &&
      !rules.recorder->Record(call, *entry.sandbox, &*upstream)) {
    return;
  }
  // The request has an effect from here on.
  if (!entry.reason.empty()) rules.admin_entries->Note(entry, rules.unix_ms);
  if (port == kEgressPort) {
    const std::string token = EgressToken(rules.ingress.egress_secret, rules.ingress.api_key, id);
    return ServeEgress(call, sandboxes, network, rules.entry == nullptr ? &token : nullptr, id,
                       behind);
  }
  auto use = sandboxes.pauses.OpenRequest(*entry.sandbox);
  if (entry.sandbox->state == sandbox::State::kRunning) {
    return ForwardInto(call, id, sandboxes, std::move(use), std::move(*upstream));
  }
  const auto waiting = std::make_shared<http::Upstream>(std::move(*upstream));
  sandboxes.pauses.Wake(call.caller(), id,
                        [call, id, &sandboxes, use = std::move(use), waiting](const Status& awake) {
                          if (!awake) return call.Respond(MapError(awake.error(), Doing::kResume));
                          ForwardInto(call, id, sandboxes, use, std::move(*waiting));
                        });
}

// Judges a request on a daemon with tenants, whose key, if it shows one, is that of `holder`.
void JudgeAndEnter(Call call, const Route& route, int port, std::optional<tenants::Identity> holder,
                   sandbox::Sandboxes& sandboxes, netpolicy::Network& network, ProxyRules rules) {
  const std::string id(route.id);
  rules.unix_ms = SystemClock().UnixMillis();
  auto entry = rules.judge->Judge(call.request(), route, port, &holder, rules.unix_ms);
  if (!entry) {
    rules.refusals->Add(entry.error(), RightsAtPort(port, call.request().method, route.rest),
                        call.request(), call.request_id(), holder ? &*holder : nullptr, id);
    return call.Respond(std::move(entry).error());
  }
  call.SetCaller(entry->caller);
  call.exchange().SetAuthority(AuthorityOf(entry->caller));
  rules.api_key = entry->key;
  rules.request_id = call.request_id();
  rules.gone = entry->sandbox == nullptr && ValidSandboxId(id) &&
               sandboxes.registry.IsGone(call.caller(), id);
  rules.entry = &*entry;
  Enter(call, route, port, *entry, sandboxes, network, rules);
}

}  // namespace

void Proxy(Call call, const Route& route, sandbox::Sandboxes& sandboxes,
           netpolicy::Network& network, ProxyRules rules) {
  const auto port = ParsePort(route.port);
  if (!port) return call.Respond(InvalidPort(route));
  if (rules.judge != nullptr) {
    if (rules.known != nullptr && *rules.known) {
      return JudgeAndEnter(std::move(call), route, *port, *rules.known, sandboxes, network, rules);
    }
    if (ProxyJudge::KeyShown(call.request(), route).empty()) {
      return JudgeAndEnter(std::move(call), route, *port, {}, sandboxes, network, rules);
    }
    return (*rules.identify)(call, [call, route, port = *port, &sandboxes, &network,
                                    rules](Parsed<tenants::Identity> holder) {
      if (!holder) return call.Respond(std::move(holder).error());
      JudgeAndEnter(call, route, port, *std::move(holder), sandboxes, network, rules);
    });
  }
  // The request needs no key, only the credentials of the sandbox itself.
  call.SetCaller(tenants::Caller::Daemon());
  const std::string id(route.id);
  Entry entry;
  if (ValidSandboxId(id)) entry.sandbox = sandboxes.registry.Find(call.caller(), id);
  rules.unix_ms = SystemClock().UnixMillis();
  rules.request_id = call.request_id();
  rules.gone = entry.sandbox == nullptr && ValidSandboxId(id) &&
               sandboxes.registry.IsGone(call.caller(), id);
  Enter(call, route, *port, entry, sandboxes, network, rules);
}

}  // namespace atl::api
