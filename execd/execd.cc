#include "execd/execd.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "execd/files/tar.h"
#include "execd/files/upload.h"
#include "execd/files/watch.h"
#include "execd/http/proxy.h"
#include "execd/http/request_json.h"
#include "execd/prepare.h"
#include "execd/run/processes.h"
#include "execd/trust/trust.h"
#include "runtime/wire/output.h"

namespace atl::execd {

namespace {

// Returns the identity that /v1/filesystem/{uid}/{gid}/… names: the two ids without supplementary
// groups, whether or not passwd has them. Answers an error and returns null if the ids are invalid.
Actor ActorOf(Exchange* exchange) {
  const auto uid = ParseId(exchange->parameters[0]), gid = ParseId(exchange->parameters[1]);
  if (!uid || !gid) {
    exchange->RespondError(400, "INVALID_REQUEST_BODY",
                           "uid and gid in the path: use whole numbers from 0 to 4294967294");
    return nullptr;
  }
  Identity identity;
  identity.uid = *uid;
  identity.gid = *gid;
  if (!CanBe(identity)) {
    // Upstream's error code without its 503, because clients would retry a 503.
    exchange->RespondError(501, "FILESYSTEM_IDENTITY_UNAVAILABLE",
                           "uid " + exchange->parameters[0] + " and gid " +
                               exchange->parameters[1] +
                               " are not both within the ids of this sandbox");
    return nullptr;
  }
  return std::make_shared<const Identity>(std::move(identity));
}

// Signals that an operator sends to a container. Other signals would only serve to end the sandbox
// through execd.
bool IsPassedOn(int64_t signal) {
  constexpr int kPassedOn[] = {SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM,
                               SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
  return std::find(std::begin(kPassedOn), std::end(kPassedOn), signal) != std::end(kPassedOn);
}

}  // namespace

Execd::Execd(Core* core)
    : core_(*core),
      server_(&core->loop,
              [this](const std::shared_ptr<Exchange>& exchange) { router_.Handle(exchange); }),
      commands_(core),
      sessions_(core),
      terminals_(core),
      files_(core),
      metrics_(core),
      code_(core, &commands_),
      isolated_(core) {}

Status Execd::Prepare() {
  ATOLL_ASSIGN(entrypoint_, Entrypoint::Open(&core_.loop));
  return {};
}

void Execd::Start(wire::StartMessage message, UniqueFd listener,
                  std::function<bool(int)> accept_peer, std::function<void(Status)> started) {
  if (auto filled = FillSandbox(&core_, message); !filled) return started(std::move(filled));
  core_.note = [this](LimitEvent event) {
    entrypoint_->Note(event == LimitEvent::kOomKill ? wire::kOomKillNote : wire::kPidsLimitNote);
  };
  limit_watch_.emplace(&core_);
  auto serve = [this, listener = std::make_shared<UniqueFd>(std::move(listener)),
                accept_peer = std::move(accept_peer)] {
    router_.RequireToken(core_.access_token);
    AddRunRoutes();
    AddFileRoutes();
    AddOtherRoutes();
    isolated_.AddRoutes(&router_, core_.pass != 0);
    // Posted, because the client that waits for the sandbox comes first.
    core_.loop.Post([this] { code_.Warm(); });
    return server_.Listen(std::move(*listener), accept_peer);
  };
  if (message.authority.certificate.empty()) {
    return Begin(std::move(message), std::move(serve), started);
  }
  const auto complain = [this](std::string_view what) {
    entrypoint_->Say("certificate authority: " + std::string(what) + "\n");
  };
  if (auto trusted = TrustAuthority(message.authority, &core_.env, complain); !trusted) {
    return started(std::move(trusted));
  }
  trust_stores_.emplace(&core_, complain);
  trust_stores_->Fill([this, message = std::move(message), serve = std::move(serve), started] {
    Begin(message, serve, started);
  });
}

void Execd::Begin(wire::StartMessage message, std::function<Status()> serve,
                  const Started& started) {
  auto& all = message.hooks;
  const auto first = std::find_if(all.begin(), all.end(),
                                  [](const wire::Hook& hook) { return hook.schedule.empty(); });
  if (first == all.end()) {
    // The entrypoint starts before everything else, because its start is what clients wait for.
    return RunEntrypoint(message, [serve = std::move(serve), started](Status status) {
      started(status ? serve() : std::move(status));
    });
  }
  if (auto served = serve(); !served) return started(std::move(served));
  wire::Hook hook = std::move(*first);
  all.erase(first);
  hooks_.emplace(&core_, entrypoint_.get());
  hooks_->RunFirst(std::move(hook), [this, message = std::move(message), started](Status status) {
    if (!status) return started(std::move(status));
    RunEntrypoint(message, started);
  });
}

Status Execd::StartSession(const wire::StartMessage& message, UniqueFd connections,
                           IsolatedShell::Note note) {
  ATOLL_TRY(FillSandbox(&core_, message));
  // Uses the message's environment only: the EXECD_ENVS file belongs to the sandbox.
  core_.env = Environment(message.env);
  if (!core_.env.Get("PATH")) core_.env.Set("PATH", kDefaultPath);
  if (!core_.env.Get("HOME")) core_.env.Set("HOME", core_.user.home);
  shell_ = std::make_unique<IsolatedShell>(&core_, !message.argv.empty(), std::move(note));
  AddUpstreamFileRoutes();
  router_.Add("POST", "/run", [this](ExchangePtr x) { shell_->Run(x); });
  router_.Add("GET", "/runs/{}", [this](ExchangePtr x) { shell_->GetRun(x); });
  router_.Add("GET", "/runs/{}/logs", [this](ExchangePtr x) { shell_->GetLogs(x); });
  return server_.Receive(std::move(connections));
}

void Execd::RunEntrypoint(const wire::StartMessage& message, const Started& started) {
  // Process 1 ends with the entrypoint, and the kernel then ends all other processes of the
  // sandbox. _exit, because destructors would do nothing that the kernel does not do.
  auto status = entrypoint_->Start(&core_, message.argv, [](int code) { ::_exit(code); });
  if (status && !message.hooks.empty()) {
    if (!hooks_) hooks_.emplace(&core_, entrypoint_.get());
    hooks_->Schedule(message.hooks);
  }
  started(std::move(status));
}

void Execd::Leave(int code) {
  entrypoint_->GiveUp(code, [](int last) { ::_exit(last); });
}

void Execd::FeedOutput(UniqueFd control) {
  if (!entrypoint_->fed()) entrypoint_->Feed(std::move(control), 0);
}

void Execd::OnSignal(int signal) {
  if (signal == SIGCHLD) return core_.Reap();
  if (!IsPassedOn(signal)) return;
  if (entrypoint_ && entrypoint_->started()) {
    entrypoint_->Forward(signal);
  } else if (signal == SIGTERM || signal == SIGINT) {
    if (!entrypoint_) ::_exit(128 + signal);
    Leave(128 + signal);
  }
}

// Delivers a signal as if a process of the sandbox had sent it to process 1. SIGKILL from inside
// cannot reach process 1, so here SIGKILL applies to all processes. It also ends a sandbox without
// a program.
void Execd::Signal(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    const auto document = ParseObject(std::move(body), false);
    const auto number = document ? IntegerMember(document->root(), "signal", 0, 64, 0)
                                 : Result<int64_t>(Fail(document.error()));
    if (!number || (*number != SIGKILL && !IsPassedOn(*number))) {
      return x->RespondError(400, "INVALID_REQUEST_BODY",
                             number ? "signal " + std::to_string(*number) +
                                          ": is not passed on to a sandbox's program; KILL, HUP, "
                                          "INT, QUIT, TERM, USR1, USR2, WINCH and CONT are"
                                    : number.error().message());
    }
    const std::string* stop = x->QueryValue("stop");
    const bool stops = *number == SIGTERM && stop != nullptr && *stop == "true";
    // Answers first, because the signal may end execd.
    x->RespondEmpty();
    core_.loop.Post([this, stops, signal = static_cast<int>(*number)] {
      if (stops && entrypoint_ && entrypoint_->started()) {
        return entrypoint_->Forward(core_.stop_signal);
      }
      // The filter lets nobody else send a signal to everybody.
      if (signal == SIGKILL) ::syscall(SYS_kill, -1, SIGKILL, 0, 0, 0, core_.pass);
      OnSignal(signal == SIGKILL ? SIGTERM : signal);
    });
  });
}

// The id of a session or a context means its current run, as in upstream. Interrupting a session
// ends it. Interrupting a context keeps it.
void Execd::Interrupt(const std::shared_ptr<Exchange>& exchange) {
  const std::string* id = exchange->QueryValue("id");
  if (!id || id->empty()) {
    exchange->RespondError(400, "MISSING_QUERY", "missing query parameter 'id'");
  } else if (sessions_.Destroy(*id) || code_.Interrupt(*id)) {
    exchange->RespondEmpty();
  } else {
    commands_.Interrupt(exchange, *id);
  }
}

// A restarted daemon asks for the output. The request's socket replaces the control socket of the
// first daemon.
void Execd::ResumeOutput(const std::shared_ptr<Exchange>& exchange) {
  const std::string* text = exchange->QueryValue("offset");
  uint64_t offset = 0;
  const auto [end, error] = text
                                ? std::from_chars(text->data(), text->data() + text->size(), offset)
                                : std::from_chars_result{nullptr, std::errc::invalid_argument};
  if (!exchange->head().Find(wire::kInternalHeader)) {
    return exchange->RespondText(404, "404 page not found");
  }
  if (error != std::errc() || end != text->data() + text->size()) {
    return exchange->RespondError(400, "INVALID_QUERY", "offset: use a whole number");
  }
  // Posted, because TakeSocket destroys the calling connection.
  core_.loop.Post([this, exchange, offset] {
    if (UniqueFd socket = exchange->TakeSocket()) {
      entrypoint_->Feed(std::move(socket), offset,
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                        "Upgrade: atoll-output\r\n\r\n");
    }
  });
}

void Execd::AddRunRoutes() {
  router_.Add("POST", "/command", [this](ExchangePtr x) { commands_.Run(x); });
  router_.Add("DELETE", "/command", [this](ExchangePtr x) { Interrupt(x); });
  router_.Add("GET", "/command/status/{}", [this](ExchangePtr x) { commands_.Status(x); });
  router_.Add("GET", "/command/{}/logs", [this](ExchangePtr x) { commands_.Logs(x); });
  router_.Add("POST", "/session", [this](ExchangePtr x) { sessions_.Create(x); });
  router_.Add("POST", "/session/{}/run", [this](ExchangePtr x) { sessions_.Run(x); });
  router_.Add("DELETE", "/session/{}", [this](ExchangePtr x) { sessions_.Delete(x); });
  router_.Add("POST", "/pty", [this](ExchangePtr x) { terminals_.Create(x); });
  router_.Add("GET", "/pty/{}", [this](ExchangePtr x) { terminals_.Get(x); });
  router_.Add("DELETE", "/pty/{}", [this](ExchangePtr x) { terminals_.Delete(x); });
  router_.Add("GET", "/pty/{}/ws", [this](ExchangePtr x) { terminals_.Attach(x); });
  router_.Add("POST", "/code", [this](ExchangePtr x) { code_.Run(x); });
  router_.Add("DELETE", "/code", [this](ExchangePtr x) { Interrupt(x); });
  router_.Add("POST", "/code/context", [this](ExchangePtr x) { code_.CreateContext(x); });
  router_.Add("GET", "/code/contexts", [this](ExchangePtr x) { code_.ListContexts(x); });
  router_.Add("DELETE", "/code/contexts", [this](ExchangePtr x) { code_.DeleteContexts(x); });
  router_.Add("GET", "/code/contexts/{}", [this](ExchangePtr x) { code_.GetContext(x); });
  router_.Add("DELETE", "/code/contexts/{}", [this](ExchangePtr x) { code_.DeleteContext(x); });
}

// The file routes of upstream: with the image's user, and with the ids in the path.
void Execd::AddUpstreamFileRoutes() {
  const auto own = std::make_shared<const Identity>(core_.user);
  const auto add = [this, own](const char* method, const std::string& path,
                               std::function<void(ExchangePtr, const Actor&)> handle) {
    router_.Add(method, path, [own, handle](ExchangePtr x) { handle(x, own); });
    router_.Add(method, "/v1/filesystem/{}/{}" + path, [handle = std::move(handle)](ExchangePtr x) {
      if (const Actor actor = ActorOf(x.get())) handle(x, actor);
    });
  };
  const auto route = [this](void (FileRoutes::*handle)(ExchangePtr, const Actor&)) {
    return [this, handle](ExchangePtr x, const Actor& actor) { (files_.*handle)(x, actor); };
  };
  add("GET", "/files/info", route(&FileRoutes::Info));
  add("DELETE", "/files", route(&FileRoutes::Delete));
  add("POST", "/files/permissions", route(&FileRoutes::Permissions));
  add("POST", "/files/mv", route(&FileRoutes::Move));
  add("GET", "/files/search", route(&FileRoutes::Search));
  add("POST", "/files/replace", route(&FileRoutes::Replace));
  add("GET", "/files/download", route(&FileRoutes::Download));
  add("POST", "/files/upload",
      [this](ExchangePtr x, const Actor& actor) { Upload(&core_, x, actor); });
  add("POST", "/directories", route(&FileRoutes::MakeDirectories));
  add("DELETE", "/directories", route(&FileRoutes::DeleteDirectories));
  add("GET", "/directories/list", route(&FileRoutes::ListDirectory));
}

void Execd::AddFileRoutes() {
  AddUpstreamFileRoutes();
  router_.Add("GET", "/files/grep", [this](ExchangePtr x) { files_.Grep(x); });
  router_.Add("GET", "/files/watch", [this](ExchangePtr x) { WatchFiles(&core_, x); });
  router_.Add("GET", "/directories/tar", [this](ExchangePtr x) { DownloadTar(&core_, x); });
  router_.Add("POST", "/directories/tar", [this](ExchangePtr x) { UploadTar(&core_, x); });
}

void Execd::AddOtherRoutes() {
  router_.Add("GET", "/ping", [](ExchangePtr x) { x->RespondEmpty(); });
  router_.Add("GET", "/metrics", [this](ExchangePtr x) { metrics_.Get(x); });
  router_.Add("GET", "/metrics/watch", [this](ExchangePtr x) { metrics_.Watch(x); });
  router_.Add("GET", "/processes", [this](ExchangePtr x) { ListProcesses(&core_, x); });
  router_.Add("POST", "/entrypoint/signal", [this](ExchangePtr x) { Signal(x); });
  router_.Add("GET", "/.atoll/entrypoint/logs",
              [this](ExchangePtr x) { x->RespondText(200, entrypoint_->output().All()); });
  router_.Add("GET", std::string(wire::kOutputRoute), [this](ExchangePtr x) { ResumeOutput(x); });
  router_.Add("POST", std::string(wire::kPrepareRoute),
              [this](ExchangePtr x) { Preparing::Serve(&core_, &code_, x); });
  router_.Add("*", "/proxy/**", [this](ExchangePtr x) { Proxy(&core_, x); });
  router_.Add("GET", "/forward/{}", [this](ExchangePtr x) { ForwardPort(&core_, x); });
}

}  // namespace atl::execd
