#include "execd/run/session.h"

#include <signal.h>

#include <algorithm>

#include "execd/http/request_json.h"
#include "execd/run/events.h"
#include "execd/run/output_events.h"
#include "runtime/base/clock.h"

namespace atl::execd {
namespace {

constexpr int64_t kDayUs = int64_t{24} * 3600 * 1'000'000;
// Limit on the leaves that a session keeps in order to kill them when it ends. Beyond it, the
// oldest are released and go on.
constexpr size_t kMaxLeft = 64;
constexpr std::string_view kTooLarge =
    "[the session's shell had ended; its variables and functions were more than 8 MiB, and are as "
    "they were before they grew so large]\n";

}  // namespace

struct Sessions::Request {
  std::string command, cwd;
  int64_t timeout_us = 0;
  OutputForm form = OutputForm::kLines;
};

class Sessions::Execution : public std::enable_shared_from_this<Sessions::Execution> {
 public:
  Execution(Sessions* sessions, std::shared_ptr<Session> session,
            std::shared_ptr<Exchange> exchange, OutputForm form)
      : sessions_(*sessions),
        loop_(sessions->core_.loop),
        session_(std::move(session)),
        exchange_(std::move(exchange)),
        events_("stdout", form) {}

  // Starts the run. Answers the exchange in any case.
  void Start(const Request& request);
  void Kill() {
    if (shell_) shell_->Kill();
  }
  // Moves a pending run from `from` to `to`.
  void Move(const ResidentShell* from, const std::shared_ptr<ResidentShell>& to) {
    if (shell_.get() == from) shell_ = to;
  }

 private:
  Result<std::shared_ptr<ResidentShell>> Shell();
  void Ping();
  void OnOutput(std::string_view bytes);
  void Ended(const JobExit& exit);

  Sessions& sessions_;
  EventLoop& loop_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<ResidentShell> shell_;
  bool own_ = false;  // the shell serves this run only
  OutputEvents events_;
  std::string batch_;
  EventLoop::Id ping_ = 0, timeout_ = 0;
  int64_t started_us_ = 0;
};

Result<std::shared_ptr<ResidentShell>> Sessions::Execution::Shell() {
  if (session_->shell && session_->shell->free()) return session_->shell;
  own_ = session_->shell != nullptr;
  return sessions_.StartShell(session_, !own_);
}

void Sessions::Execution::Start(const Request& request) {
  started_us_ = MonotonicMicros();
  const bool forgotten = !session_->shell && session_->state.too_large;
  auto shell = Shell();
  const int64_t now = UnixMillis();
  exchange_->StartStream(200, EventStreamHeaders());
  AppendTextEvent(&batch_, "init", session_->id, now);
  AppendTextEvent(&batch_, "ping", "pong", now);
  if (!shell) {
    AppendCommandError(&batch_, shell.error().message(), shell.error().message(), now);
    exchange_->Write(batch_);
    exchange_->Finish();
    return;
  }
  if (forgotten) events_.Append(kTooLarge, now, &batch_);
  exchange_->Write(batch_);
  shell_ = std::move(*shell);
  session_->running.emplace(this, shared_from_this());
  ping_ = loop_.After(kEventPingUs, [this] { Ping(); });
  timeout_ = loop_.After(request.timeout_us, [this] { shell_->Interrupt(true); });
  exchange_->OnWritable([this] { shell_->ResumeOutput(); });
  // A run ends when its client disconnects, unlike a command.
  exchange_->OnClosed([this] {
    shell_->ResumeOutput();
    shell_->Interrupt(false);
  });
  const auto self = shared_from_this();
  shell_->Begin({request.command, request.cwd,
                 [self](std::string_view bytes) { self->OnOutput(bytes); },
                 [self](const JobExit& exit) { self->Ended(exit); }});
}

void Sessions::Execution::Ping() {
  batch_.clear();
  AppendTextEvent(&batch_, "ping", "pong", UnixMillis());
  exchange_->Write(batch_);
  ping_ = loop_.After(kEventPingUs, [this] { Ping(); });
}

void Sessions::Execution::OnOutput(std::string_view bytes) {
  if (exchange_->closed()) return events_.Discard();
  batch_.clear();
  events_.Append(bytes, UnixMillis(), &batch_);
  exchange_->Write(batch_);
  if (exchange_->backlog() > Exchange::kHighWater) shell_->PauseOutput();
}

void Sessions::Execution::Ended(const JobExit& exit) {
  loop_.Cancel(ping_);
  loop_.Cancel(timeout_);
  exchange_->OnWritable(nullptr);
  exchange_->OnClosed(nullptr);
  const int64_t now = UnixMillis();
  batch_.clear();
  const bool succeeded = exit.code == 0 && exit.signal == 0;
  events_.End(now, &batch_, succeeded ? exit.Warning() : std::string_view());
  if (succeeded) {
    AppendCompleteEvent(&batch_, (MonotonicMicros() - started_us_) / 1000, now);
  } else {
    AppendCommandError(&batch_, std::to_string(exit.code), exit.Describe(), now);
  }
  exchange_->Write(batch_);
  exchange_->Finish();
  if (own_) shell_->Release();
  // Keeps the object alive: the caller may be the shell's run, which may hold the last reference.
  loop_.Post([self = shared_from_this()] {});
  session_->running.erase(this);
}

Result<std::shared_ptr<ResidentShell>> Sessions::StartShell(const std::shared_ptr<Session>& session,
                                                            bool own) {
  const std::weak_ptr<Session> weak = session;
  ResidentShell::Client client;
  client.settled = [weak, own] {
    const auto held = weak.lock();
    if (!held || !own) return;
    for (const auto& go_on : std::exchange(held->waiting, {})) go_on();
  };
  client.gone = [this, weak, own](std::unique_ptr<ResidentShell::Run> unsent) {
    const auto held = weak.lock();
    if (!held || !own) return;
    const auto old = std::exchange(held->shell, nullptr);
    held->state = old->state();
    if (unsent && !held->deleted) {
      const auto again = StartShell(held, true);
      if (again) {
        for (const auto& [raw, run] : held->running) run->Move(old.get(), *again);
        (*again)->Begin(std::move(*unsent));
        unsent.reset();
      }
    }
    if (unsent) unsent->ended({.code = -1, .signal = SIGKILL});
    for (const auto& go_on : std::exchange(held->waiting, {})) go_on();
  };
  client.left = [this, weak](std::unique_ptr<Leaf> leaf) {
    const auto held = weak.lock();
    if (!held || held->deleted) {
      LeafPool::Kill(leaf.get());
      return core_.leaves.Return(std::move(leaf));
    }
    KeepLeft(held.get(), std::move(leaf));
  };
  ATOLL_ASSIGN(auto shell, ResidentShell::Start(&core_, session->now(), std::move(client)));
  if (own) session->shell = shell;
  return shell;
}

void Sessions::KeepLeft(Session* session, std::unique_ptr<Leaf> leaf) {
  auto& left = session->left;
  left.push_back(std::move(leaf));
  for (auto& one : left) {
    const bool oldest = left.size() > kMaxLeft && &one == &left.front();
    if (oldest || LeafPool::Empty(*one)) core_.leaves.Return(std::move(one));
  }
  std::erase(left, nullptr);
}

void Sessions::Create(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    const auto document = ParseObject(std::move(body), true);
    const auto cwd = document ? TextMember(document->root(), "cwd") : Fail(document.error());
    if (!cwd) {
      x->RespondError(400, "INVALID_REQUEST_BODY", cwd.error().message());
      return;
    }
    auto session = std::make_shared<Session>();
    session->state.cwd = core_.cwd;
    if (!cwd->empty()) {
      const auto path = ExpandPath(*cwd, core_.CommandEnvironment(), core_.Home());
      const auto made = path ? MakeDirectory(*path, core_.user) : Fail(path.error());
      if (!made) {
        x->RespondError(500, "RUNTIME_ERROR", made.error().message());
        return;
      }
      session->state.cwd = *path;
    }
    if (sessions_.size() >= kMaxSessions) {
      x->RespondError(500, "RUNTIME_ERROR",
                      "256 sessions are open: delete some that are not needed");
      return;
    }
    session->id = NewUuid(true);
    std::string answer = "{\"session_id\":";
    AppendJsonString(&answer, session->id);
    answer.push_back('}');
    sessions_.emplace(session->id, session);
    x->RespondJson(200, answer);
  });
}

void Sessions::Run(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    const auto document = ParseObject(std::move(body), false);
    const JsonValue root = document ? document->root() : JsonValue();
    const auto command = document ? TextMember(root, "command") : Fail(document.error());
    const auto cwd = TextMember(root, "cwd");
    const auto timeout = IntegerMember(root, "timeout", 0, int64_t{31536000000000}, 0);
    const auto form = ParseOutputForm(x->QueryValue("encoding"), OutputForm::kLines);
    const std::string problem = !command           ? command.error().message()
                                : !cwd             ? cwd.error().message()
                                : !timeout         ? timeout.error().message()
                                : !form            ? form.error().message()
                                : command->empty() ? "command: is empty or missing"
                                                   : "";
    if (!problem.empty()) return x->RespondError(400, "INVALID_REQUEST_BODY", problem);
    const auto found = sessions_.find(x->parameters[0]);
    if (found == sessions_.end()) {
      x->RespondError(500, "RUNTIME_ERROR", "no session with id '" + x->parameters[0] + "'");
      return;
    }
    RunIn(found->second, x->shared_from_this(),
          {*command, *cwd, *timeout == 0 ? kDayUs : *timeout * 1000, *form});
  });
}

void Sessions::RunIn(const std::shared_ptr<Session>& session,
                     const std::shared_ptr<Exchange>& exchange, const Request& request) {
  const bool expands = request.cwd.find_first_of("$~") != std::string::npos;
  if (expands && session->shell && session->shell->settling()) {
    // The session's shell is about to report its variables.
    session->waiting.emplace_back(
        [this, session, exchange, request] { RunIn(session, exchange, request); });
    return;
  }
  Request resolved = request;
  if (!request.cwd.empty()) {
    Environment env;
    if (expands) {
      env = core_.CommandEnvironment();
      env.SetAll(ExportedVariables(session->now().text));
    }
    const char* home = env.Get("HOME");
    const auto path = ExpandPath(request.cwd, env, home && *home ? home : core_.Home());
    const auto opened = path ? OpenDirectory(*path, core_.user) : Fail(path.error());
    if (!opened) {
      exchange->RespondError(400, "INVALID_REQUEST_BODY",
                             "cwd '" + request.cwd + "': " + opened.error().message());
      return;
    }
    // A relative path is relative to execd's directory, which is the root.
    resolved.cwd = path->starts_with('/') ? *path : "/" + *path;
  }
  std::make_shared<Execution>(this, session, exchange, request.form)->Start(resolved);
}

bool Sessions::Destroy(const std::string& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return false;
  const auto session = found->second;
  sessions_.erase(found);
  session->deleted = true;
  for (auto& leaf : session->left) {
    LeafPool::Kill(leaf.get());
    core_.leaves.Return(std::move(leaf));
  }
  session->left.clear();
  if (session->shell) session->shell->Kill();
  // The end of its shell keeps each execution alive.
  for (const auto& [raw, execution] : session->running) execution->Kill();
  return true;
}

void Sessions::Delete(const std::shared_ptr<Exchange>& exchange) {
  if (Destroy(exchange->parameters[0])) {
    exchange->RespondEmpty();
  } else {
    exchange->RespondError(404, "CONTEXT_NOT_FOUND",
                           "no session with id '" + exchange->parameters[0] + "'");
  }
}

}  // namespace atl::execd
