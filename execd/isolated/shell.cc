#include "execd/isolated/shell.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "execd/http/json.h"
#include "execd/http/request_json.h"
#include "execd/run/events.h"
#include "execd/run/shell_run.h"
#include "execd/run/shell_text.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Time between SIGINT and the kill of the whole run.
constexpr int64_t kInterruptUs = 2'000'000;

// Descriptor 0 is a file that sets the code and the state: neither has the size of an argument, and
// `pkill -f` does not find the shell by a word of the code. Descriptor 2 is /dev/null until the
// shell has started, because a shell that starts in a removed directory prints an error. The report
// goes to descriptor 3, which the code does not have: whether the code has run to its end, a NUL,
// the working directory, a NUL, declarations, a NUL. An interrupted run has no descriptor 3 and
// reports nothing. Code that ran to its end is reported before its own EXIT trap runs, because that
// trap has taken the place of ours. Errors from the shell's own read-only variables, which refuse
// to be declared again, are discarded.
constexpr const char* kBash = R"(exec 2>&1; unset BASH_EXECUTION_STRING
__atoll_report() { [[ ! ${__atoll_told-} ]] || return; __atoll_told=1; { printf '%s\0%s\0' "$1" "$PWD"
declare -p; declare -f; alias -p; umask -p; shopt -p; shopt -po; printf '\0'; } 2>/dev/null >&3; }
. /proc/self/fd/0; exec </dev/null
shopt -s expand_aliases; __atoll_pwd=$PWD; eval "$__atoll_state" 2>/dev/null; PWD=$__atoll_pwd
unset __atoll_state __atoll_pwd __atoll_done __atoll_code __atoll_told
trap '__atoll_code=$?; trap - EXIT; __atoll_report "${__atoll_done-left}"; exit $__atoll_code' EXIT
eval "unset __atoll_command; $__atoll_command" 3>&-
__atoll_code=$?; __atoll_done=; __atoll_report ''; exit $__atoll_code)";
// The same script for shells that list exported variables only.
constexpr const char* kSh = R"(exec 2>&1
__atoll_report() { [ -z "${__atoll_told-}" ] || return 0; __atoll_told=1
{ printf '%s\0%s\0' "$1" "$PWD"; export -p; printf '\0'; } 2>/dev/null >&3; }
. /proc/self/fd/0; exec </dev/null; __atoll_pwd=$PWD; eval "$__atoll_state"; PWD=$__atoll_pwd
unset __atoll_state __atoll_pwd __atoll_done __atoll_code __atoll_told
trap '__atoll_code=$?; trap - EXIT; __atoll_report "${__atoll_done-left}"; exit $__atoll_code' EXIT
eval "unset __atoll_command; $__atoll_command" 3>&-
__atoll_code=$?; __atoll_done=; __atoll_report ''; exit $__atoll_code)";

constexpr std::string_view kTooLong =
    "the session's variables and functions are more than 4 MiB: the next run has those of before "
    "this one";

// Opens a directory that has been removed, which is what is left of a working directory that is
// gone: its paths lead nowhere.
Result<UniqueFd> RemovedDirectory() {
  std::string path = "/dev/shm/gone-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return FailSys("mkdtemp " + path);
  auto directory = sys::Open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (::rmdir(path.c_str()) != 0) return FailSys("rmdir " + path);
  if (directory && ::fchmodat(AT_FDCWD, sys::FdPath(directory->get()).c_str(), 0755, 0) != 0) {
    return FailSys("chmod " + path);
  }
  return directory;
}

void AppendError(std::string* out, std::string_view name, std::string_view value,
                 std::string_view text) {
  out->append("{\"type\":\"error\",\"text\":");
  AppendJsonString(out, text);
  out->append(",\"error\":{\"ename\":");
  AppendJsonString(out, name);
  out->append(",\"evalue\":");
  AppendJsonString(out, value);
  out->append("},\"timestamp\":");
  AppendJsonInteger(out, UnixMillis());
  out->append("}\n\n");
}

void AppendTimeMember(std::string* out, std::string_view name, int64_t unix_us) {
  out->append(",\"").append(name).append("\":");
  AppendJsonTime(out, unix_us / 1'000'000, unix_us % 1'000'000 * 1000);
}

}  // namespace

void RespondIsolatedError(const std::shared_ptr<Exchange>& exchange, std::string_view name,
                          std::string_view value, std::string_view text) {
  std::string event;
  AppendError(&event, name, value, text);
  exchange->StartStream(200, EventStreamHeaders());
  exchange->Write(event);
  exchange->Finish();
}

class IsolatedShell::Execution : public std::enable_shared_from_this<IsolatedShell::Execution> {
 public:
  Execution(IsolatedShell* shell, std::shared_ptr<Exchange> exchange, IsolatedRun run)
      : shell_(*shell),
        core_(shell->core_),
        exchange_(std::move(exchange)),
        run_(std::move(run)),
        shell_run_(&core_.loop, exchange_, OutputForm::kLines) {}

  // Starts the run. Returns false if it has been answered already or its client has disconnected.
  bool Start();

 private:
  Result<std::unique_ptr<Job>> Spawn();
  void Interrupt();
  void TakeReport(const std::string& report);
  void Ended(const JobExit& exit);

  IsolatedShell& shell_;
  Core& core_;
  std::shared_ptr<Exchange> exchange_;
  const IsolatedRun run_;
  ShellRun shell_run_;
  std::unique_ptr<Job> job_;
  EventLoop::Id timeout_ = 0, grace_ = 0;
  bool interrupted_ = false, timed_out_ = false;
  int64_t started_us_ = 0;
};

Result<std::unique_ptr<Job>> IsolatedShell::Execution::Spawn() {
  ATOLL_ASSIGN(const UniqueFd null, OpenNull());
  UniqueFd out_write, report_write, directory;
  ATOLL_TRY(shell_run_.Open(&out_write, &report_write));
  std::string state = shell_.state_;
  // Variables of this run only.
  for (const auto& [name, value] : run_.envs) {
    state.append("\nexport ").append(name).append("=").append(ShellQuoted(value));
  }
  ATOLL_ASSIGN(const UniqueFd text,
               sys::SealedMemfd("run",
                                "__atoll_command=" + ShellQuoted(run_.code) +
                                    "\n__atoll_state=" + ShellQuoted(state) + "\n",
                                false));
  const std::string program = core_.Shell();
  SpawnSpec spec;
  spec.programs = {program.empty() ? "/bin/sh" : program};
  if (program.ends_with("/bash")) {
    spec.argv = {"bash", "--noprofile", "--norc", "-c", kBash};
  } else {
    spec.argv = {"sh", "-c", kSh};
  }
  if (shell_.state_.empty()) spec.env = core_.env.entries();
  spec.identity = &core_.user;
  auto there = OpenDirectory(shell_.cwd_, core_.user);
  if (!there && shell_.cwd_ != core_.cwd) there = RemovedDirectory();
  ATOLL_ASSIGN(directory, std::move(there));
  spec.cwd = directory.get();
  spec.stdio[0] = text.get();
  spec.stdio[1] = out_write.get();
  spec.stdio[2] = null.get();
  spec.report = report_write.get();
  return Job::Start(&core_, std::move(spec), 0,
                    [self = shared_from_this()](const JobExit& exit) { self->Ended(exit); });
}

bool IsolatedShell::Execution::Start() {
  if (exchange_->closed()) return false;
  if (shell_.ended_) {
    RespondIsolatedError(exchange_, "RuntimeError", "session is dead", "session is dead");
    return false;
  }
  started_us_ = MonotonicMicros();
  auto job = Spawn();
  if (!job) {
    const std::string why = job.error().message();
    RespondIsolatedError(exchange_, "RuntimeError", why, why);
    return false;
  }
  job_ = std::move(*job);
  exchange_->StartStream(200, EventStreamHeaders());
  // Sends the head.
  exchange_->Write("");
  if (run_.timeout_seconds > 0) {
    timeout_ = core_.loop.After(run_.timeout_seconds * 1'000'000, [this] {
      timeout_ = 0;
      timed_out_ = true;
      Interrupt();
    });
  }
  shell_run_.Follow([this] { Interrupt(); });
  return true;
}

void IsolatedShell::Execution::Interrupt() {
  if (!job_ || !job_->running() || std::exchange(interrupted_, true)) return;
  job_->Signal(SIGINT);
  grace_ = core_.loop.After(kInterruptUs, [this] {
    grace_ = 0;
    job_->Kill();
  });
}

void IsolatedShell::Execution::TakeReport(const std::string& report) {
  const size_t end = report.find('\0');
  const size_t next = end == std::string::npos ? end : report.find('\0', end + 1);
  if (next == std::string::npos || next + 1 >= report.size() || report.back() != '\0') return;
  const bool left = end != 0;
  if (left && !interrupted_) shell_.ended_ = true;
  if (!run_.envs.empty()) return;
  if (next > end + 1) shell_.cwd_ = report.substr(end + 1, next - end - 1);
  shell_.state_ = report.substr(next + 1, report.size() - next - 2);
}

void IsolatedShell::Execution::Ended(const JobExit& exit) {
  const auto self = shared_from_this();
  core_.loop.Cancel(timeout_);
  core_.loop.Cancel(grace_);
  TakeReport(shell_run_.End());
  std::string outcome;
  std::string_view warning;
  if (timed_out_) {
    const std::string why = "timed out after " + std::to_string(run_.timeout_seconds) + " s";
    AppendError(&outcome, "RuntimeError", why, why);
  } else if (exit.signal != 0) {
    AppendError(&outcome, "RuntimeError", exit.Describe(), exit.Describe());
  } else if (exit.code != 0 || shell_.ended_) {
    AppendError(&outcome, "ExitError", std::to_string(exit.code),
                shell_.ended_ ? "the session has ended: " + exit.Describe() : exit.Describe());
  } else {
    warning = shell_run_.too_long() ? kTooLong : exit.Warning();
    AppendCompleteEvent(&outcome, (MonotonicMicros() - started_us_) / 1000, UnixMillis());
  }
  shell_run_.Finish(warning, outcome);
  // Keeps the object alive, because the job is the caller.
  core_.loop.Post([self] {
    self->shell_.queue_.pop_front();
    self->shell_.StartNext();
  });
}

void IsolatedShell::Tell() {
  wire::SessionNote note{.ended = ended_, .last_run_ms = last_run_ms_};
  note.running =
      static_cast<uint32_t>(queue_.size() + static_cast<size_t>(std::count_if(
                                                background_.begin(), background_.end(),
                                                [](const auto& run) { return run->running; })));
  note_(note);
}

void IsolatedShell::StartNext() {
  last_run_ms_ = UnixMillis();
  while (!queue_.empty() && !queue_.front()->Start()) queue_.pop_front();
  Tell();
}

void IsolatedShell::Run(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(kMaxJsonBody, [this, x = exchange.get()](std::string body) {
    auto run = ParseIsolatedRun(std::move(body));
    if (!run) return x->RespondError(400, "INVALID_REQUEST_BODY", run.error().message());
    const auto strong = x->shared_from_this();
    if (run->background) return StartBackground(strong, *run);
    if (queue_.size() >= kMaxWaiting) {
      return x->RespondError(503, "SERVICE_UNAVAILABLE", "64 runs wait for the one under way");
    }
    queue_.push_back(std::make_shared<Execution>(this, strong, std::move(*run)));
    if (queue_.size() == 1) StartNext();
  });
}

// ---- background runs

Result<std::unique_ptr<IsolatedShell::Background>> IsolatedShell::MakeBackground(
    const IsolatedRun& run) {
  ATOLL_ASSIGN(const UniqueFd null, OpenNull());
  ATOLL_ASSIGN(const UniqueFd workspace, OpenDirectory(core_.cwd, core_.user));
  ATOLL_ASSIGN(
      const UniqueFd directory,
      MakeDirectory((core_.cwd == "/" ? "" : core_.cwd) + "/.execd/background-runs", core_.user));
  auto made = std::make_unique<Background>();
  made->id = NewUuid(true);
  UniqueFd log, write_end;
  {
    const FileIdentity as(core_.user);
    for (const auto& [name, file] : {std::pair{".log", &log}, {".code", &made->code}}) {
      const std::string path = made->id + name;
      file->reset(::openat(directory.get(), path.c_str(),
                           O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644));
      if (!*file) return FailSys("open " + path);
    }
  }
  ATOLL_ASSIGN(made->log, Spool::To(&core_.loop, std::move(log), &write_end));
  const std::string program = core_.Shell();
  Environment env = core_.env;
  env.SetAll(run.envs);
  SpawnSpec spec;
  spec.programs = {program.empty() ? "/bin/sh" : program};
  spec.argv = {program.ends_with("/bash") ? "bash" : "sh", "-c"};
  ATOLL_ASSIGN(const UniqueFd script, AddScript(run.code, &spec));
  spec.env = env.entries();
  spec.identity = &core_.user;
  spec.cwd = workspace.get();
  spec.stdio[0] = null.get();
  spec.stdio[1] = spec.stdio[2] = write_end.get();
  Background* raw = made.get();
  ATOLL_ASSIGN(made->job, Job::Start(&core_, std::move(spec), 0, [this, raw](const JobExit& exit) {
                 constexpr int64_t kKept = 16 << 20;
                 raw->running = false;
                 raw->finished_us = UnixMicros();
                 raw->exit_code = exit.signal != 0 ? 128 + exit.signal : exit.code;
                 const std::string text = std::to_string(raw->exit_code) + "\n";
                 [[maybe_unused]] const ssize_t n =
                     ::write(raw->code.get(), text.data(), text.size());
                 raw->log->Drain();
                 raw->log->CutTo(kKept);
                 Tell();
               }));
  made->started_us = UnixMicros();
  return made;
}

void IsolatedShell::StartBackground(const std::shared_ptr<Exchange>& exchange,
                                    const IsolatedRun& run) {
  if (!durable_) {
    return exchange->RespondError(
        400, "INVALID_REQUEST_BODY",
        "background: the workspace keeps nothing; use mode rw, or overlay "
        "with persist");
  }
  if (background_.size() == kMaxRuns) {
    const auto old = std::find_if(background_.begin(), background_.end(),
                                  [](const auto& known) { return !known->running; });
    if (old == background_.end()) {
      return exchange->RespondError(503, "SERVICE_UNAVAILABLE", "64 runs are in the background");
    }
    background_.erase(old);
  }
  if (ended_) return exchange->RespondError(400, "RUNTIME_ERROR", "session is dead");
  auto made = MakeBackground(run);
  if (!made) {
    const std::string why = "background: " + made.error().message();
    return exchange->RespondError(400, "INVALID_REQUEST_BODY", why);
  }
  last_run_ms_ = UnixMillis();
  std::string answer = "{\"session_id\":";
  AppendJsonString(&answer, core_.id);
  answer.append(",\"run_id\":");
  AppendJsonString(&answer, (*made)->id);
  AppendTimeMember(&answer, "started_at", (*made)->started_us);
  answer.push_back('}');
  background_.push_back(std::move(*made));
  Tell();
  exchange->RespondJson(202, answer);
}

IsolatedShell::Background* IsolatedShell::Find(const std::shared_ptr<Exchange>& exchange) {
  for (const auto& run : background_) {
    if (run->id == exchange->parameters[0]) return run.get();
  }
  exchange->RespondError(404, "SESSION_NOT_FOUND",
                         "no run with id '" + exchange->parameters[0] + "'");
  return nullptr;
}

void IsolatedShell::GetRun(const std::shared_ptr<Exchange>& exchange) {
  const Background* run = Find(exchange);
  if (run == nullptr) return;
  std::string answer = "{\"session_id\":";
  AppendJsonString(&answer, core_.id);
  answer.append(",\"run_id\":");
  AppendJsonString(&answer, run->id);
  answer.append(run->running ? ",\"running\":true" : ",\"running\":false,\"exit_code\":");
  if (!run->running) AppendJsonInteger(&answer, run->exit_code);
  AppendTimeMember(&answer, "started_at", run->started_us);
  if (!run->running) AppendTimeMember(&answer, "finished_at", run->finished_us);
  answer.push_back('}');
  exchange->RespondJson(200, answer);
}

void IsolatedShell::GetLogs(const std::shared_ptr<Exchange>& exchange) {
  constexpr uint64_t kMost = 16 << 20;
  const std::string* text = exchange->QueryValue("cursor");
  uint64_t cursor = 0;
  if (text) {
    const auto number = text->empty() || text->size() > 18 ? std::string::npos
                                                           : text->find_first_not_of("0123456789");
    const bool wrong = text->empty() || text->size() > 18 || number != std::string::npos;
    if (wrong) {
      return exchange->RespondError(400, "INVALID_REQUEST_BODY", "cursor: use a whole number");
    }
    cursor = std::stoull(*text);
  }
  const Background* run = Find(exchange);
  if (run == nullptr) return;
  run->log->Drain();
  const auto size = static_cast<uint64_t>(run->log->Size());
  const uint64_t length = std::min(size - std::min(cursor, size), kMost);
  auto file = run->log->Reopen();
  if (!file) return exchange->RespondError(500, "RUNTIME_ERROR", "logs: no descriptor is left");
  exchange->StartStream(200,
                        {{"Content-Type", "text/plain; charset=utf-8"},
                         {"EXECD-ISOLATED-TAIL-CURSOR", std::to_string(cursor + length)}},
                        &length);
  if (length > 0) exchange->WriteFile(std::move(*file), cursor, length);
  exchange->Finish();
}

}  // namespace atl::execd
