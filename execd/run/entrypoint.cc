#include "execd/run/entrypoint.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "runtime/base/clock.h"

namespace atl::execd {
namespace {

constexpr const char* kDefaultEnvsFile = "/opt/opensandbox/.env";

// Thresholds of unsent output for pausing and resuming. Between kHoldBack and the size of the
// buffer there is room for the reads of one turn.
constexpr uint64_t kHoldBack = 24 << 10;
constexpr uint64_t kGoOn = 8 << 10;
// How long the program waits for a daemon that reads nothing.
constexpr int64_t kPatienceUs = 250'000;
// Delays after the program's end: for a connected daemon to read the output, and for a restarting
// daemon to connect. No client sees the second delay, because every client goes through the daemon.
constexpr int64_t kFlushUs = 1'000'000;
constexpr int64_t kAwaitDaemonUs = 10'000'000;

std::string BootstrapShell(const Core& core) {
  const char* chosen = core.env.Get("BOOTSTRAP_SHELL");
  if (chosen && *chosen) return chosen;
  const std::string shell = core.Shell();
  return shell.empty() ? "/bin/sh" : shell;
}

}  // namespace

Status FillSandbox(Core* core, const wire::StartMessage& message) {
  core->id = message.sandbox_id;
  core->started_at = ::time(nullptr);
  core->access_token = message.access_token;
  core->env = Environment(message.env);
  ATOLL_ASSIGN(core->user, ResolveUser(message.user));
  // Docker sets PATH and HOME if the image does not; shells need both.
  if (!core->env.Get("PATH")) core->env.Set("PATH", kDefaultPath);
  core->home_given = core->env.Get("HOME") != nullptr;
  if (!core->home_given) core->env.Set("HOME", core->user.home);
  const char* envs = core->env.Get("EXECD_ENVS");
  if (!envs || !*envs) core->env.Set("EXECD_ENVS", kDefaultEnvsFile);
  if (message.stop_signal > 0 && message.stop_signal < NSIG) {
    core->stop_signal = static_cast<int>(message.stop_signal);
  }
  for (const std::string& path : message.directories) {
    // Failure is ignored: the image may have a file in its place, or a read-only root.
    if (path.starts_with('/') && path.find('\0') == std::string::npos) {
      [[maybe_unused]] const auto made = MakeDirectory(path, Identity());
    }
  }
  if (!message.cwd.empty()) {
    if (message.cwd[0] != '/' || message.cwd.find('\0') != std::string::npos) {
      return Fail(Code::kInvalidArgument,
                  "working directory '" + message.cwd + "': must be absolute");
    }
    core->cwd = message.cwd;
    if (message.cwd == "/") return {};  // the directory of process 1
    // Made as root, not as the image's user: OCI runtimes create it before they drop privileges.
    auto directory = MakeDirectory(message.cwd, Identity());
    if (!directory) return Fail(std::move(directory).error().Wrap("working directory"));
    if (::fchdir(directory->get()) != 0) return FailSys("chdir " + message.cwd);
  }
  return {};
}

std::vector<std::string> BootstrapArgv(const Core& core, std::vector<std::string> argv) {
  const char* command = core.env.Get("BOOTSTRAP_CMD");
  if (command && *command) {
    argv = {BootstrapShell(core), "-c", command};
  } else if (argv.size() > 1 && argv[0] == "-c") {
    std::string joined = argv[1];
    for (size_t i = 2; i < argv.size(); ++i) joined.append(" ").append(argv[i]);
    argv = {BootstrapShell(core), "-c", std::move(joined)};
  } else if (argv.empty()) {
    return argv;
  }
  const char* script = core.env.Get("EXECD_BOOTSTRAP_PRE_SCRIPT");
  if (script && *script) {
    // "$@" of the shell passes the words unchanged.
    std::vector<std::string> wrapped = {BootstrapShell(core), "-c",
                                        ". \"$EXECD_BOOTSTRAP_PRE_SCRIPT\" && exec \"$@\"",
                                        "bootstrap"};
    wrapped.insert(wrapped.end(), argv.begin(), argv.end());
    argv = std::move(wrapped);
  }
  return argv;
}

Result<std::unique_ptr<Entrypoint>> Entrypoint::Open(EventLoop* loop) {
  auto entrypoint = std::make_unique<Entrypoint>();
  Entrypoint* raw = entrypoint.get();
  raw->loop_ = loop;
  raw->feed_.emplace(loop, &raw->output_, [raw] {
    raw->patient_ = true;
    raw->Balance();
    raw->Settle();
  });
  ATOLL_ASSIGN(raw->null_, OpenNull());
  const auto open = [raw, loop](Source* source, const char* name, UniqueFd* write_end) -> Status {
    const auto keep = [raw, source](std::string_view bytes) { raw->Keep(source, bytes); };
    auto pipe = OutputPipe::OpenNamed(loop, name, write_end, keep);
    if (!pipe) pipe = OutputPipe::Open(loop, write_end, keep);  // no FIFO: a virtual machine
    ATOLL_ASSIGN(source->pipe, std::move(pipe));
    return {};
  };
  ATOLL_TRY(open(&raw->out_, "/proc/1/fd/1", &raw->out_write_));
  ATOLL_TRY(open(&raw->err_, "/proc/1/fd/2", &raw->err_write_));
  return entrypoint;
}

Status Entrypoint::Start(Core* core, std::vector<std::string> argv,
                         std::function<void(int)> on_exit) {
  on_exit_ = std::move(on_exit);
  // Runs while the first command is on its way, and brings the files that it will look up into the
  // kernel's caches.
  core->loop.Post([core] {
    core->TouchEnvsFile();
    [[maybe_unused]] const std::string shell = core->Shell();
  });
  SpawnSpec spec;
  spec.argv = BootstrapArgv(*core, std::move(argv));
  if (spec.argv.empty()) return {};
  spec.programs = PathCandidates(spec.argv[0], core->env);
  // Without the EXECD_ENVS file, which applies to later programs.
  spec.env = core->env.entries();
  spec.identity = &core->user;
  spec.spared = true;
  GiveStdio(&spec);
  ATOLL_ASSIGN(job_, Job::Start(core, std::move(spec), 0, [this](const JobExit& exit) {
                 Ended(exit.signal != 0 ? 128 + exit.signal : exit.code);
               }));
  return {};
}

void Entrypoint::GiveUp(int code, std::function<void(int)> on_exit) {
  on_exit_ = std::move(on_exit);
  Ended(code);
}

void Entrypoint::GiveStdio(SpawnSpec* spec) const {
  spec->stdio[0] = null_.get();
  spec->stdio[1] = out_write_.get();
  spec->stdio[2] = err_write_.get();
}

void Entrypoint::Say(std::string_view line) {
  Insert(OutputStream::kStderr, line);
}

void Entrypoint::Note(std::string_view text) {
  Insert(OutputStream::kNote, text);
}

void Entrypoint::Insert(OutputStream stream, std::string_view text) {
  output_.Append(stream, UnixMicros(), text);
  feed_->Send();
  Balance();
}

void Entrypoint::Feed(UniqueFd daemon, uint64_t offset, std::string first) {
  feed_->Connect(std::move(daemon), offset, std::move(first));
  patient_ = true;
  Balance();
  Settle();
}

void Entrypoint::Keep(Source* source, std::string_view bytes) {
  source->read += bytes.size();
  output_.Append(source->stream, UnixMicros(), bytes);
  feed_->Send();
  Balance();
  Settle();
}

void Entrypoint::Balance() {
  const uint64_t unsent = feed_->unsent();
  if (!feed_->connected() || unsent <= kGoOn) {
    HoldBack(false);
  } else if (unsent >= kHoldBack && patient_) {
    HoldBack(true);
  }
}

void Entrypoint::HoldBack(bool held) {
  if (held_ == held) return;
  held_ = held;
  for (const Source* source : {&out_, &err_}) {
    held ? source->pipe->Pause() : source->pipe->Resume();
  }
  loop_->Cancel(patience_);
  patience_ = held ? loop_->After(kPatienceUs, [this] { LosePatience(); }) : 0;
}

void Entrypoint::LosePatience() {
  const int64_t left = feed_->progress_us() + kPatienceUs - loop_->now_us();
  if (left > 0) {
    patience_ = loop_->After(left, [this] { LosePatience(); });
    return;
  }
  patient_ = false;
  HoldBack(false);
}

void Entrypoint::Ended(int code) {
  exit_code_ = code;
  uint64_t left = 0;
  for (Source* source : {&out_, &err_}) {
    source->wanted = source->read + source->pipe->Waiting();
    left += source->wanted - source->read;
  }
  // More output is sent as usual, so that nothing of it is overwritten.
  if (!feed_->connected() || left + feed_->unsent() < kHoldBack) {
    for (const Source* source : {&out_, &err_}) source->pipe->Drain();
  }
  Settle();
}

void Entrypoint::Settle() {
  if (!exit_code_) return;
  const bool read = out_.read >= out_.wanted && err_.read >= err_.wanted;
  // If nothing was ever written, there is nothing to wait for.
  if (read && (output_.end() == 0 || (feed_->connected() && feed_->idle()))) on_exit_(*exit_code_);
  SetEndTimer();
}

void Entrypoint::SetEndTimer() {
  if (end_timer_ != 0 && end_connected_ == feed_->connected()) return;
  end_connected_ = feed_->connected();
  loop_->Cancel(end_timer_);
  end_timer_ =
      loop_->After(end_connected_ ? kFlushUs : kAwaitDaemonUs, [this] { on_exit_(*exit_code_); });
}

void Entrypoint::Forward(int signal) {
  if (job_->running()) ::kill(job_->pid(), signal);
}

}  // namespace atl::execd
