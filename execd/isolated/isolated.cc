#include "execd/isolated/isolated.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "execd/files/files.h"
#include "execd/http/json.h"
#include "execd/http/proxy.h"
#include "execd/http/request_json.h"
#include "execd/isolated/commit.h"
#include "execd/isolated/diff.h"
#include "execd/isolated/shell.h"
#include "runtime/base/clock.h"
#include "runtime/base/disk_full.h"
#include "runtime/base/log.h"
#include "runtime/base/own_directory.h"
#include "runtime/base/sys.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/output.h"

namespace atl::execd {
namespace {

constexpr std::string_view kPrefix = "/v1/isolated/session/";
// Interval of the search for idle sessions, and the time for which a dead session is kept.
constexpr int64_t kLookUs = 1'000'000;
constexpr int64_t kKeepDeadUs = 60'000'000;
// Interval of attempts to remove a session that has ended.
constexpr int64_t kEndAgainUs = 2'000'000;
// Directories that may be writable besides the overlays.
constexpr std::string_view kWritable[] = {"/workspace", "/mnt", "/media", "/data"};

void AppendTime(std::string* out, std::string_view name, int64_t unix_us) {
  out->append(",\"").append(name).append("\":");
  AppendJsonTime(out, unix_us / 1'000'000, unix_us % 1'000'000 * 1000);
}

// Opens a directory without following any link in its path, as the spawner does. So a commit goes
// to this directory and nowhere else.
Result<UniqueFd> OpenLower(int base, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, base, path.c_str(), &how, sizeof how)));
  if (fd) return fd;
  return FailSys("open " + path);
}

// Opens an absolute path without '.' and '..' as root, and creates what is missing: parents owned
// by root, the last directory by `owner`. Does not change existing owners, and follows no link,
// because a client chose the path, and processes of the sandbox may change all of it.
Status MakeForSession(const std::string& path, const Identity& owner) {
  ATOLL_ASSIGN(UniqueFd directory, sys::Open("/", O_PATH | O_DIRECTORY));
  for (size_t at = 1; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, end - at);
    const std::string so_far = path.substr(0, end);
    at = end + 1;
    auto next = OpenLower(directory.get(), name);
    if (!next && next.error().error_number() == ENOENT) {
      next = MakeOwnDirectory(directory.get(), name, 0755);
      if (next && end == path.size() && ::fchown(next->get(), owner.uid, owner.gid) != 0) {
        return FailSys("chown " + path);
      }
    }
    if (!next && next.error().error_number() == ELOOP) {
      return Fail(Code::kInvalidArgument, so_far + " is a symbolic link; name its target");
    }
    if (!next) return Fail(std::move(next).error().Wrap(so_far));
    directory = std::move(*next);
  }
  return {};
}

// Answers a create that failed.
void RespondFailed(const std::shared_ptr<Exchange>& exchange, const Error& error) {
  if (IsDiskFull(error)) return exchange->RespondError(507, "STORAGE_FULL", error.message());
  switch (error.code()) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
      return exchange->RespondError(400, "RUNTIME_ERROR", error.message());
    default:
      return exchange->RespondError(503, "SERVICE_UNAVAILABLE", error.message());
  }
}

// The kernel of gVisor lacks what a session is made of.
constexpr const char kNoSpawner[] =
    "sandboxes with isolation gvisor have no isolated sessions; create this one with isolation "
    "namespace or microvm";

void RespondNothingKept(const std::shared_ptr<Exchange>& exchange) {
  exchange->RespondError(400, "RUNTIME_ERROR",
                         "the session has no workspace of mode overlay that persists");
}

}  // namespace

void Isolated::UseLine(UniqueFd line) {
  own_line_ = true;
  line_.Connect(std::move(line), "");
}

void Isolated::AddRoutes(Router* router, bool available) {
  available_ = available || own_line_;
  const auto add = [this, router](const char* method, const std::string& path,
                                  void (Isolated::*handle)(ExchangePtr)) {
    router->Add(method, "/v1/isolated" + path, [this, handle](ExchangePtr x) {
      if (available_) return (this->*handle)(x);
      x->RespondError(501, "NOT_SUPPORTED", kNoSpawner);
    });
  };
  router->Add("GET", "/v1/isolated/capabilities", [this](ExchangePtr x) { Capabilities(x); });
  router->Add("GET", std::string(wire::kSessionRoute), [this](ExchangePtr x) { TakeLine(x); });
  router->Add("GET", "/v1/isolated/sessions", [this](ExchangePtr x) { List(x); });
  add("POST", "/session", &Isolated::Create);
  add("GET", "/session/{}", &Isolated::Get);
  add("DELETE", "/session/{}", &Isolated::Delete);
  add("POST", "/session/{}/run", &Isolated::Run);
  add("GET", "/session/{}/runs/{}", &Isolated::PassOn);
  add("GET", "/session/{}/runs/{}/logs", &Isolated::PassOn);
  for (const auto& [method, path] : {std::pair{"GET", "/files/info"},
                                     {"DELETE", "/files"},
                                     {"POST", "/files/permissions"},
                                     {"POST", "/files/mv"},
                                     {"GET", "/files/search"},
                                     {"POST", "/files/replace"},
                                     {"GET", "/files/download"},
                                     {"POST", "/files/upload"},
                                     {"POST", "/directories"},
                                     {"DELETE", "/directories"},
                                     {"GET", "/directories/list"}}) {
    add(method, std::string("/session/{}") + path, &Isolated::PassOn);
  }
  add("GET", "/session/{}/diff", &Isolated::Diff);
  add("POST", "/session/{}/commit", &Isolated::Commit);
}

void Isolated::Capabilities(const std::shared_ptr<Exchange>& exchange) const {
  std::string answer = available_ ? "{\"available\":true" : "{\"available\":false";
  answer.append(",\"isolator\":\"atoll\",\"version\":\"1\"");
  if (!available_) answer.append(",\"message\":\"").append(kNoSpawner).append("\"");
  for (const char* what :
       {"setpriv_available", "userns_available", "commit_supported", "diff_supported"}) {
    answer.append(",\"").append(what).append(available_ ? "\":true" : "\":false");
  }
  answer.append(
      ",\"hardening\":{\"init_mode\":\"pid1\","
      "\"signal_shield\":true,\"cap_drop\":{\"state\":\"active\"},"
      "\"seccomp\":{\"state\":\"active\"},\"landlock\":{\"state\":\"unsupported\"},"
      "\"ebpf\":{\"state\":\"unsupported\"}}}");
  exchange->RespondJson(200, answer);
}

// A daemon connects, the first or a later one. The connection becomes the line.
void Isolated::TakeLine(const std::shared_ptr<Exchange>& exchange) {
  if (own_line_ || !exchange->head().Find(wire::kInternalHeader)) {
    return exchange->RespondText(404, "404 page not found");
  }
  // Posted, because TakeSocket destroys the calling connection.
  core_.loop.Post([this, exchange] {
    if (UniqueFd socket = exchange->TakeSocket()) {
      line_.Connect(std::move(socket),
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                    "Upgrade: atoll-sessions\r\n\r\n");
    }
  });
}

// ---- creation

Result<std::string> Isolated::Resolve(const std::string& path) const {
  ATOLL_ASSIGN(const UniqueFd file, OpenNoMagic(path, O_PATH));
  std::string real(wire::kMaxSessionPath + 1, '\0');
  const std::string link = sys::FdPath(file.get());
  const ssize_t n = ::readlink(link.c_str(), real.data(), real.size());
  if (n <= 0) return FailSys("readlink of " + path);
  real.resize(static_cast<size_t>(n));
  const bool allowed =
      std::any_of(std::begin(kWritable), std::end(kWritable), [&](std::string_view root) {
        return real == root || real.starts_with(std::string(root) + "/");
      });
  if (allowed) return real;
  return Fail(Code::kInvalidArgument,
              "'" + path + "' does not lie in /workspace, /mnt, /media or /data");
}

Identity Isolated::IdentityOf(const Session& session) const {
  Identity identity;
  identity.uid = core_.user.uid;
  identity.gid = core_.user.gid;
  if (session.request.userns) return identity;
  identity.uid = session.request.uid.value_or(identity.uid);
  identity.gid = session.request.gid.value_or(identity.gid);
  return identity;
}

Result<wire::SessionSpec> Isolated::SpecOf(Session* session) {
  const IsolatedRequest& request = session->request;
  const Identity identity = IdentityOf(*session);
  using Kind = wire::SessionMount::Kind;
  wire::SessionSpec spec;
  spec.shared_network = request.share_net;
  spec.shared_tmp = !request.strict;
  for (const IsolatedOverlay& overlay : request.overlays) {
    if (const Status made = MakeForSession(overlay.path, identity); !made) {
      if (IsDiskFull(made.error())) return Fail(made.error());
      return Fail(Error(Code::kInvalidArgument, made.error().message()));
    }
    const Kind kind = overlay.mode == IsolatedOverlay::Mode::kRw   ? Kind::kWritable
                      : overlay.mode == IsolatedOverlay::Mode::kRo ? Kind::kReadOnly
                      : overlay.persist                            ? Kind::kOverlay
                                                                   : Kind::kScratch;
    spec.mounts.push_back({kind, overlay.path, overlay.path});
    if (kind != Kind::kOverlay) continue;
    if (!session->kept) session->kept = std::make_shared<KeptOverlays>();
    auto lower = OpenLower(AT_FDCWD, overlay.path);
    if (!lower) return Fail(Error(Code::kInvalidArgument, lower.error().message()));
    session->kept->list.push_back({overlay.path, std::move(*lower), {}});
  }
  for (const std::string& path : request.extra_writable) {
    ATOLL_ASSIGN(std::string real, Resolve(path));
    spec.mounts.push_back({Kind::kWritable, std::move(real), path});
  }
  for (const IsolatedBind& bind : request.binds) {
    ATOLL_ASSIGN(std::string real, Resolve(bind.source));
    spec.mounts.push_back(
        {bind.readonly ? Kind::kReadOnly : Kind::kWritable, std::move(real), bind.dest});
  }
  for (uint32_t number = 1; number <= wire::kMaxSessions; ++number) {
    if ((taken_ >> number & 1) == 0) {
      spec.number = number;
      return spec;
    }
  }
  return Fail(Code::kResourceExhausted,
              std::to_string(wire::kMaxSessions) + " sessions exist, the limit: delete one");
}

Status Isolated::Ask(const SessionPtr& session, wire::SessionSpec spec) {
  ATOLL_ASSIGN(sys::SocketPair control, sys::UnixPair(SOCK_STREAM));
  ATOLL_ASSIGN(sys::SocketPair connections, sys::UnixPair(SOCK_STREAM));
  for (const UniqueFd* ours : {&control.a, &connections.a}) {
    if (::fcntl(ours->get(), F_SETFL, O_RDWR | O_NONBLOCK) != 0) return FailSys("fcntl");
  }
  wire::StartMessage start;
  start.sandbox_id = session->id;
  if (session->request.HasDurableWorkspace()) start.argv = {"durable"};
  start.env = IsolatedEnvironment(session->request, core_.CommandEnvironment().entries());
  start.cwd = session->request.overlays.front().path;
  const Identity identity = IdentityOf(*session);
  const wire::SessionUser user{.uid = session->request.uid.value_or(identity.uid),
                               .gid = session->request.gid.value_or(identity.gid),
                               .sandbox_uid = identity.uid,
                               .sandbox_gid = identity.gid};
  start.user = std::to_string(user.uid) + ":" + std::to_string(user.gid);
  session->unsent = wire::Frame(start.Encode());
  coming_[session->number] = session;
  session->control = std::move(control.a);
  session->connections = std::move(connections.a);
  ATOLL_ASSIGN(session->watch,
               core_.loop.Watch(session->control.get(), EPOLLIN | EPOLLOUT,
                                [this, weak = std::weak_ptr(session)](uint32_t events) {
                                  if (const auto strong = weak.lock()) OnControl(strong, events);
                                }));
  wire::SessionRequest request;
  if (session->request.userns) {
    request.what = wire::SessionRequest::MakeMapped{.spec = std::move(spec),
                                                    .terms = session->request.limits,
                                                    .user = user,
                                                    .control = std::move(control.b),
                                                    .connections = std::move(connections.b)};
  } else {
    request.what = wire::SessionRequest::Make{.spec = std::move(spec),
                                              .terms = session->request.limits,
                                              .control = std::move(control.b),
                                              .connections = std::move(connections.b)};
  }
  line_.Ask(std::move(request), [this, session](const Status& made) {
    session->made = true;
    if (!made) return Created(session, made);
    if (session->watch == 0) return Died(session);
    if (session->started) Created(session, {});
  });
  return {};
}

void Isolated::Create(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    auto request = ParseIsolatedRequest(std::move(body));
    // An unknown profile is the only value that upstream answers as not found, because it looks the
    // profile up.
    if (!request && request.error().code() == Code::kNotFound) {
      return RespondFailed(x->shared_from_this(), request.error());
    }
    if (!request) return x->RespondError(400, "INVALID_REQUEST_BODY", request.error().message());
    Identity identity;
    identity.uid = request->uid.value_or(0);
    identity.gid = request->gid.value_or(0);
    if (!request->userns && !CanBe(identity)) {
      return x->RespondError(400, "RUNTIME_ERROR", "uid or gid is none of this sandbox's");
    }
    auto session = std::make_shared<Session>();
    session->id = NewUuid(true);
    session->request = std::move(*request);
    auto spec = SpecOf(session.get());
    if (!spec) return RespondFailed(x->shared_from_this(), spec.error());
    session->number = spec->number;
    taken_ |= 1U << session->number;
    session->created = [this, strong = x->shared_from_this(),
                        weak = std::weak_ptr(session)](const Status& status) {
      const auto made = weak.lock();
      if (!status) return RespondFailed(strong, status.error());
      // No client knows the session.
      if (strong->closed()) return End(made, [](const Status&) {});
      std::string answer = "{\"session_id\":";
      AppendJsonString(&answer, made->id);
      AppendTime(&answer, "created_at", made->created_us);
      answer.push_back('}');
      strong->RespondJson(201, answer);
    };
    if (auto asked = Ask(session, std::move(*spec)); !asked) Created(session, asked);
  });
}

void Isolated::Created(const SessionPtr& session, const Status& status) {
  const auto created = std::exchange(session->created, nullptr);
  if (!created) return;
  const SessionPtr kept = session;
  coming_.erase(session->number);
  if (status) {
    session->created_us = UnixMicros();
    session->idle_since_us = MonotonicMicros();
    sessions_[session->id] = session;
    LookLater();
    return created(status);
  }
  // The session may exist, at least in part.
  core_.loop.Unwatch(std::exchange(session->watch, 0));
  session->control.reset();
  session->connections.reset();
  AskEnd(session->number, [created, status](const Status&) { created(status); });
}

// ---- its execd

void Isolated::OnControl(const SessionPtr& session, uint32_t events) {
  if (events & EPOLLOUT) {
    const ssize_t n = ::send(session->control.get(), session->unsent.data(), session->unsent.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) session->unsent.erase(0, static_cast<size_t>(n));
    if (session->unsent.empty()) {
      session->unsent = std::string();
      core_.loop.Modify(session->watch, EPOLLIN);
    }
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  auto piece = sys::ReceivePiece(session->control.get(), 4096);
  if (!piece && piece.error().error_number() == EAGAIN) return;
  if (!piece || piece->bytes.empty()) return Died(session);
  for (UniqueFd& descriptor : piece->fds) session->descriptors.push_back(std::move(descriptor));
  session->frames.Append(piece->bytes);
  if (!TakeFrames(session)) Died(session);
}

Status Isolated::TakeFrames(const SessionPtr& session) {
  for (;;) {
    ATOLL_ASSIGN(const auto frame, session->frames.Next());
    if (!frame) return {};
    if (session->kept && !session->kept->list.front().upper) {
      ATOLL_TRY(TakeUppers(session, *frame));
      continue;
    }
    if (!session->started) {
      ATOLL_ASSIGN(const wire::StartReport report, wire::DecodeStartReport(*frame));
      session->started = report.kind == wire::StartReport::Kind::kStarted;
      if (!session->started) {
        Created(session, Fail(Code::kInvalidArgument, report.message));
        return {};
      }
      // Until the spawner has reported the session as made, it may still remove what it has made:
      // when it is upgraded or told to end.
      if (session->made) Created(session, {});
      continue;
    }
    wire::SessionNote note;
    if (!wire::DecodeFields(*frame, &note)) return Fail(Code::kInvalidArgument, "note: malformed");
    session->running = note.running;
    session->last_run_ms = note.last_run_ms;
    session->idle_since_us = MonotonicMicros();
    if (note.ended && session->died_us == 0) session->died_us = MonotonicMicros();
  }
}

Status Isolated::TakeUppers(const SessionPtr& session, std::string_view frame) {
  std::vector<KeptOverlay>& list = session->kept->list;
  wire::SessionUppers uppers;
  std::vector<UniqueFd> descriptors = std::exchange(session->descriptors, {});
  if (!wire::DecodeFields(frame, &uppers, descriptors) ||
      uppers.directories.size() != list.size()) {
    return Fail(Code::kInvalidArgument, "uppers: malformed");
  }
  for (size_t i = 0; i < list.size(); ++i) list[i].upper = std::move(uppers.directories[i]);
  return {};
}

void Isolated::Died(const SessionPtr& session) {
  core_.loop.Unwatch(std::exchange(session->watch, 0));
  if (session->created) {
    // The spawner's reply has a better reason.
    if (!session->made) return;
    return Created(session, Fail(Code::kUnavailable, "the session ended before it began"));
  }
  session->running = 0;
  if (session->died_us == 0) session->died_us = MonotonicMicros();
}

// ---- ending

void Isolated::End(const SessionPtr& session, std::function<void(Status)> done) {
  sessions_.erase(session->id);
  if (session->kept) session->kept->gone = true;
  session->kept.reset();
  // Closing the control socket ends the session's process 1, and so all its processes.
  core_.loop.Unwatch(std::exchange(session->watch, 0));
  session->control.reset();
  session->connections.reset();
  AskEnd(session->number, std::move(done));
}

void Isolated::AskEnd(uint32_t number, std::function<void(Status)> done) {
  wire::SessionRequest request;
  request.what = wire::SessionRequest::End{.number = number};
  line_.Ask(std::move(request), [this, number, done = std::move(done)](const Status& ended) {
    if (ended) {
      taken_ &= ~(1U << number);
    } else {
      // The number stays in use until nothing of the session is left.
      core_.loop.After(kEndAgainUs, [this, number] { AskEnd(number, [](const Status&) {}); });
    }
    done(ended);
  });
}

int64_t Isolated::IdleLeft(const Session& session) const {
  const int64_t all_us = session.request.idle_seconds * 1'000'000;
  if (session.running > 0) return all_us;
  return std::max<int64_t>(all_us - (MonotonicMicros() - session.idle_since_us), 0);
}

void Isolated::LookLater() {
  if (look_ != 0 || sessions_.empty()) return;
  look_ = core_.loop.After(kLookUs, [this] {
    look_ = 0;
    Look();
  });
}

void Isolated::Look() {
  std::vector<SessionPtr> over;
  for (const auto& [id, session] : sessions_) {
    const bool dead = session->died_us != 0 && MonotonicMicros() - session->died_us > kKeepDeadUs;
    const bool idle = session->request.idle_seconds > 0 && IdleLeft(*session) == 0;
    if (dead || idle) over.push_back(session);
  }
  for (const SessionPtr& session : over) End(session, [](const Status&) {});
  LookLater();
}

// ---- the rest

Isolated::SessionPtr Isolated::Find(const std::shared_ptr<Exchange>& exchange) const {
  const auto found = sessions_.find(exchange->parameters[0]);
  if (found != sessions_.end()) return found->second;
  exchange->RespondError(404, "SESSION_NOT_FOUND",
                         "no session with id '" + exchange->parameters[0] + "'");
  return nullptr;
}

void Isolated::AppendState(std::string* out, const Session& session) const {
  out->append("\"session_id\":");
  AppendJsonString(out, session.id);
  out->append(session.died_us != 0 ? ",\"status\":\"dead\"" : ",\"status\":\"active\"");
  AppendTime(out, "created_at", session.created_us);
  AppendTime(out, "last_run_at",
             session.last_run_ms == 0 ? session.created_us : session.last_run_ms * 1000);
  if (session.request.idle_seconds == 0) return;
  out->append(",\"idle_remaining_seconds\":");
  AppendJsonInteger(out, (IdleLeft(session) + 999'999) / 1'000'000);
}

void Isolated::List(const std::shared_ptr<Exchange>& exchange) const {
  std::string answer = "{\"sessions\":[";
  for (const auto& [id, session] : sessions_) {
    if (answer.back() == '}') answer.push_back(',');
    answer.push_back('{');
    AppendState(&answer, *session);
    answer.push_back('}');
  }
  exchange->RespondJson(200, answer + "]}");
}

void Isolated::Get(const std::shared_ptr<Exchange>& exchange) {
  const SessionPtr session = Find(exchange);
  if (!session) return;
  std::string answer = "{";
  AppendState(&answer, *session);
  AppendIsolatedParameters(&answer, session->request);
  exchange->RespondJson(200, answer + "}");
}

void Isolated::Delete(const std::shared_ptr<Exchange>& exchange) {
  const SessionPtr session = Find(exchange);
  if (!session) return;
  End(session, [exchange](const Status& ended) {
    if (ended) return exchange->RespondEmpty();
    exchange->RespondError(503, "SERVICE_UNAVAILABLE", ended.error().message());
  });
}

void Isolated::Run(const std::shared_ptr<Exchange>& exchange) {
  const SessionPtr session = Find(exchange);
  if (!session) return;
  // A session whose shell has exited answers itself, in the form that the client asked for.
  if (session->watch != 0) return PassOn(exchange);
  RespondIsolatedError(exchange, "RuntimeError", "session is dead", "session is dead");
}

void Isolated::Diff(const std::shared_ptr<Exchange>& exchange) {
  const SessionPtr session = Find(exchange);
  if (!session) return;
  if (!session->kept) return RespondNothingKept(exchange);
  RespondSessionDiff(&core_.loop, exchange, session->kept,
                     std::make_shared<const Identity>(IdentityOf(*session)));
}

void Isolated::Commit(const std::shared_ptr<Exchange>& exchange) {
  const SessionPtr session = Find(exchange);
  if (!session) return;
  if (!session->kept) return RespondNothingKept(exchange);
  const auto settle = [this](std::function<void()> answer) {
    if (!own_line_) return answer();
    wire::SessionRequest forget;
    forget.what = wire::SessionRequest::Forget{};
    line_.Ask(std::move(forget), [answer = std::move(answer)](const Status&) { answer(); });
  };
  CommitSession(&core_.loop, exchange, session->kept,
                std::make_shared<const Identity>(IdentityOf(*session)), settle);
}

void Isolated::PassOn(const std::shared_ptr<Exchange>& exchange) {
  const SessionPtr session = Find(exchange);
  if (!session) return;
  auto pair = sys::UnixPair(SOCK_STREAM);
  Status sent = pair ? Status() : Fail(pair.error());
  if (sent) {
    const int theirs[] = {pair->b.get()};
    sent = sys::SendMessage(session->connections.get(), "+", theirs);
  }
  if (sent && ::fcntl(pair->a.get(), F_SETFL, O_RDWR | O_NONBLOCK) != 0) sent = FailSys("fcntl");
  if (!sent) {
    return exchange->RespondError(503, "SERVICE_UNAVAILABLE",
                                  "the session cannot be reached: " + sent.error().message());
  }
  // Uses the raw path, so that escapes reach the session unchanged.
  std::string target(exchange->raw_path());
  target.erase(0, std::min(target.find('/', kPrefix.size()), target.size()));
  if (!exchange->raw_query().empty()) target.append("?").append(exchange->raw_query());
  ForwardTo(&core_, exchange, std::move(pair->a), std::move(target));
}

}  // namespace atl::execd
