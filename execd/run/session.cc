#include "execd/run/session.h"

#include <unistd.h>

#include "execd/http/request_json.h"
#include "execd/run/events.h"
#include "execd/run/job.h"
#include "execd/run/shell_run.h"
#include "runtime/base/clock.h"

namespace atl::execd {
namespace {

constexpr int64_t kDayUs = int64_t{24} * 3600 * 1'000'000;

// The shell's own program. "$1" is the command, "$2" and following are pieces of the state; what it
// reports goes to descriptor 3: the working directory, a NUL, declarations, a NUL.
//
// Descriptor 3 is closed for the command itself (the shell keeps a close-on-exec copy for
// afterwards), so that nothing that the command starts can hold or forge the report. The EXIT trap
// reports also when the command calls exit. PWD is among the declarations, and would undo a run's
// own directory.
constexpr const char* kBash = R"(__atoll_report() { trap - EXIT; { printf '%s\0' "$PWD"
export -p; declare -f; alias -p; printf '\0'; } >&3 2>/dev/null; }
__atoll_command=$1; shift; __atoll_state=; for __atoll_piece; do __atoll_state+=$__atoll_piece; done
shopt -s expand_aliases; __atoll_pwd=$PWD; eval "$__atoll_state"; PWD=$__atoll_pwd; set --
unset __atoll_state __atoll_piece __atoll_pwd
trap '__atoll_code=$?; __atoll_report; exit $__atoll_code' EXIT
eval "unset __atoll_command; $__atoll_command" 3>&-)";
// The same for a shell that has neither functions' listing nor "+=".
constexpr const char* kSh = R"(__atoll_report() { trap - EXIT; { printf '%s\0' "$PWD"
export -p; printf '\0'; } >&3 2>/dev/null; }
__atoll_command=$1; shift; __atoll_state=; for __atoll_piece; do
__atoll_state=$__atoll_state$__atoll_piece; done; __atoll_pwd=$PWD; eval "$__atoll_state"
PWD=$__atoll_pwd; set --; unset __atoll_state __atoll_piece __atoll_pwd
trap '__atoll_code=$?; __atoll_report; exit $__atoll_code' EXIT
eval "unset __atoll_command; $__atoll_command" 3>&-)";

}  // namespace

class Sessions::Execution : public std::enable_shared_from_this<Sessions::Execution> {
 public:
  Execution(Sessions* sessions, std::shared_ptr<Session> session,
            std::shared_ptr<Exchange> exchange, OutputForm form)
      : core_(sessions->core_),
        session_(std::move(session)),
        exchange_(std::move(exchange)),
        run_(&core_.loop, exchange_, form) {}

  // Answers the exchange in any case.
  void Start(const std::string& command, const std::string& cwd, int64_t timeout_us);
  void Kill() {
    if (job_) job_->Kill();
  }

 private:
  Result<std::unique_ptr<Job>> Spawn(const std::string& command, const std::string& cwd,
                                     int64_t timeout_us);
  void Ping();
  void Ended(const JobExit& exit);

  Core& core_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Exchange> exchange_;
  ShellRun run_;
  std::unique_ptr<Job> job_;
  std::string batch_;
  EventLoop::Id ping_ = 0;
  int64_t started_us_ = 0;
};

Result<std::unique_ptr<Job>> Sessions::Execution::Spawn(const std::string& command,
                                                        const std::string& cwd,
                                                        int64_t timeout_us) {
  ATOLL_ASSIGN(const UniqueFd null, OpenNull());
  UniqueFd out_write, report_write, directory;
  ATOLL_TRY(run_.Open(&out_write, &report_write));
  const std::string shell = core_.Shell();
  const bool bash = shell.ends_with("/bash");
  SpawnSpec spec;
  spec.programs = {shell.empty() ? "/bin/sh" : shell};
  if (bash) {
    spec.argv = {"bash", "--noprofile", "--norc", "-c", kBash, "bash", command};
  } else {
    spec.argv = {"sh", "-c", kSh, "sh", command};
  }
  AppendState(&spec.argv, session_->state);
  // The first run's environment becomes part of the state. Later ones start from nothing else, or a
  // variable that a run has unset would come back.
  if (session_->state.empty()) spec.env = core_.CommandEnvironment().entries();
  spec.identity = &core_.user;
  ATOLL_ASSIGN(directory, OpenDirectory(cwd.empty() ? session_->cwd : cwd, core_.user));
  spec.cwd = directory.get();
  spec.stdio[0] = null.get();
  spec.stdio[1] = spec.stdio[2] = out_write.get();
  spec.report = report_write.get();
  return Job::Start(&core_, std::move(spec), timeout_us,
                    [self = shared_from_this()](const JobExit& exit) { self->Ended(exit); });
}

void Sessions::Execution::Start(const std::string& command, const std::string& cwd,
                                int64_t timeout_us) {
  started_us_ = MonotonicMicros();
  auto job = Spawn(command, cwd, timeout_us);
  const int64_t now = UnixMillis();
  exchange_->StartStream(200, EventStreamHeaders());
  AppendTextEvent(&batch_, "init", session_->id, now);
  AppendTextEvent(&batch_, "ping", "pong", now);
  if (!job) {
    AppendCommandError(&batch_, job.error().message(), job.error().message(), now);
    exchange_->Write(batch_);
    exchange_->Finish();
    return;
  }
  job_ = std::move(*job);
  session_->running.emplace(this, shared_from_this());
  exchange_->Write(batch_);
  ping_ = core_.loop.After(kEventPingUs, [this] { Ping(); });
  // Unlike a command, a run ends with its client.
  run_.Follow([this] { Kill(); });
}

void Sessions::Execution::Ping() {
  batch_.clear();
  AppendTextEvent(&batch_, "ping", "pong", UnixMillis());
  exchange_->Write(batch_);
  ping_ = core_.loop.After(kEventPingUs, [this] { Ping(); });
}

void Sessions::Execution::Ended(const JobExit& exit) {
  const auto self = shared_from_this();
  core_.loop.Cancel(ping_);
  const std::string report = run_.End();
  const size_t end = report.find('\0');
  if (end != std::string::npos && end > 0 && report.size() > end + 1 && report.back() == '\0') {
    session_->cwd = report.substr(0, end);
    session_->state = report.substr(end + 1, report.size() - end - 2);
  }
  const int64_t now = UnixMillis();
  batch_.clear();
  if (exit.code == 0 && exit.signal == 0) {
    AppendCompleteEvent(&batch_, (MonotonicMicros() - started_us_) / 1000, now);
  } else {
    AppendCommandError(&batch_, std::to_string(exit.code), exit.Describe(), now);
  }
  run_.Finish(batch_);
  session_->running.erase(this);
  // This is the job's own end: it must outlive the call.
  core_.loop.Post([self] {});
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
    session->cwd = core_.cwd;
    if (!cwd->empty()) {
      const auto path = core_.Path(*cwd);
      const auto made = path ? MakeDirectory(*path, core_.user) : Fail(path.error());
      if (!made) {
        x->RespondError(500, "RUNTIME_ERROR", made.error().message());
        return;
      }
      session->cwd = *path;
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
    std::string problem = !command           ? command.error().message()
                          : !cwd             ? cwd.error().message()
                          : !timeout         ? timeout.error().message()
                          : !form            ? form.error().message()
                          : command->empty() ? "command: is empty or missing"
                                             : "";
    std::string directory;
    if (problem.empty() && !cwd->empty()) {
      const auto path = core_.Path(*cwd);
      const auto opened = path ? OpenDirectory(*path, core_.user) : Fail(path.error());
      if (opened) {
        directory = *path;
      } else {
        problem = "cwd '" + *cwd + "': " + opened.error().message();
      }
    }
    if (!problem.empty()) {
      x->RespondError(400, "INVALID_REQUEST_BODY", problem);
      return;
    }
    const auto found = sessions_.find(x->parameters[0]);
    if (found == sessions_.end()) {
      x->RespondError(500, "RUNTIME_ERROR", "no session with id '" + x->parameters[0] + "'");
      return;
    }
    auto execution = std::make_shared<Execution>(this, found->second, x->shared_from_this(), *form);
    execution->Start(*command, directory, *timeout == 0 ? kDayUs : *timeout * 1000);
  });
}

bool Sessions::Destroy(const std::string& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return false;
  const auto session = found->second;
  sessions_.erase(found);
  // Each stays alive by its job's end.
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
