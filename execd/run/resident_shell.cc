#include "execd/run/resident_shell.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Time between the signal that ends a run and the kill of everything.
constexpr int64_t kEndUs = 1'000'000;
// Signal that ends a run. Bash runs its EXIT trap first and then dies of it. Scripts do not trap
// it, but many trap SIGTERM and SIGINT.
constexpr int kEndSignal = SIGVTALRM;
constexpr int kReadsATurn = 16;

// Makes a FIFO for `user`. Its name is removed once the shell has opened it. A running process can
// get a pipe only by opening a file.
Result<std::string> MakeFifo(const Identity& user, UniqueFd* read_end) {
  const FileIdentity as(user);
  Error last(Code::kInternal, "no directory for a FIFO");
  for (const char* directory : {"/dev/shm", "/tmp"}) {
    std::string path = std::string(directory) + "/.atoll-" + NewUuid(false);
    if (::mkfifo(path.c_str(), 0600) != 0) {
      last = SysError("mkfifo " + path);
      continue;
    }
    read_end->reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (*read_end) return path;
    last = SysError("open " + path);
    ::unlink(path.c_str());
  }
  return Fail(std::move(last));
}

// Returns a removed directory, in place of a directory that was removed. No file can be found or
// made in it, and the shell can leave it.
Result<UniqueFd> RemovedDirectory(const Identity& user) {
  const std::string path = "/dev/shm/.atoll-" + NewUuid(false);
  const FileIdentity as(user);
  if (::mkdir(path.c_str(), 0700) != 0) return FailSys("mkdir " + path);
  auto directory = sys::Open(path, O_PATH | O_DIRECTORY);
  ::rmdir(path.c_str());
  return directory;
}

std::string DirectoryOf(pid_t pid, const Identity& user) {
  char path[PATH_MAX];
  const FileIdentity as(user);
  const std::string link = "/proc/" + std::to_string(pid) + "/cwd";
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  if (n <= 0 || static_cast<size_t>(n) == sizeof path) return {};
  std::string found(path, static_cast<size_t>(n));
  return found.ends_with(" (deleted)") ? std::string() : found;
}

}  // namespace

size_t ResidentShell::g_state_bytes = 0;

Result<std::shared_ptr<ResidentShell>> ResidentShell::Start(Core* core, ShellState state,
                                                            Client client) {
  std::shared_ptr<ResidentShell> shell(
      new ResidentShell(core, std::move(state), std::move(client)));
  ATOLL_TRY(shell->Spawn());
  return shell;
}

ResidentShell::~ResidentShell() {
  if (socket_) core_.loop.Unwatch(watch_);
  core_.loop.Cancel(grace_);
  CountState(0);
}

void ResidentShell::CountState(size_t size) {
  g_state_bytes += size - counted_;
  counted_ = size;
}

Status ResidentShell::Spawn() {
  CountState(state_.text.size());
  ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_STREAM));
  if (::fcntl(pair.a.get(), F_SETFL, O_NONBLOCK) != 0) return FailSys("fcntl O_NONBLOCK");
  UniqueFd out_write;
  ATOLL_ASSIGN(out_, OutputPipe::Open(&core_.loop, &out_write, [this](std::string_view bytes) {
                 if (phase_ == Phase::kRunning && run_) run_->output(bytes);
               }));
  socket_ = std::move(pair.a);
  ATOLL_ASSIGN(watch_, core_.loop.Watch(socket_.get(), EPOLLIN, [this](uint32_t events) {
    const auto self = shared_from_this();
    if (events & EPOLLOUT) Flush();
    if (events & ~static_cast<uint32_t>(EPOLLOUT)) Receive();
  }));
  auto directory = OpenDirectory(state_.cwd, core_.user);
  if (!directory && state_.text.empty()) return Fail(std::move(directory).error());
  if (!directory) directory = RemovedDirectory(core_.user);
  if (!directory) return Fail(std::move(directory).error());
  const std::string shell = core_.Shell();
  bash_ = shell.ends_with("/bash");
  SpawnSpec spec;
  spec.programs = {shell.empty() ? "/bin/sh" : shell};
  if (bash_) {
    spec.argv = {"bash", "--noprofile", "--norc", "-O", "expand_aliases", "-s"};
  } else {
    spec.argv = {"sh", "-s"};
  }
  // The environment is part of the state. Otherwise a variable that a run has unset would come
  // back.
  if (state_.text.empty()) {
    spec.env = core_.CommandEnvironment().entries();
  } else {
    spec.env = {"PWD=" + state_.cwd};
  }
  spec.identity = &core_.user;
  spec.cwd = directory->get();
  spec.stdio[0] = pair.b.get();
  spec.stdio[1] = spec.stdio[2] = out_write.get();
  ATOLL_ASSIGN(job_,
               Job::Start(&core_, std::move(spec), 0,
                          [self = shared_from_this()](const JobExit& exit) { self->Ended(exit); }));
  job_->OnLeaf([this, self = shared_from_this()](std::unique_ptr<Leaf> leaf) {
    if (leaf) client_.left(std::move(leaf));
  });
  Send(ShellLoop(bash_));
  return {};
}

void ResidentShell::Send(std::string_view bytes) {
  outgoing_.append(bytes);
  Flush();
}

void ResidentShell::Flush() {
  size_t sent = 0;
  while (socket_ && sent < outgoing_.size()) {
    const ssize_t n = ::send(socket_.get(), outgoing_.data() + sent, outgoing_.size() - sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    // Any other error means that the shell has ended, which is reported separately.
    if (n < 0 && errno != EAGAIN) sent = outgoing_.size();
    if (n < 0) break;
    sent += static_cast<size_t>(n);
  }
  outgoing_.erase(0, sent);
  if (outgoing_.empty()) outgoing_.shrink_to_fit();
  if (socket_) {
    core_.loop.Modify(watch_, EPOLLIN | (outgoing_.empty() ? 0U : static_cast<uint32_t>(EPOLLOUT)));
  }
}

void ResidentShell::Receive() {
  static char bytes[64 << 10];
  for (int i = 0; i < kReadsATurn && socket_; ++i) {
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      // The other end is closed: the shell has ended or has executed another program.
      core_.loop.Unwatch(watch_);
      socket_.reset();
      return;
    }
    std::string_view rest(bytes, static_cast<size_t>(n));
    while (!rest.empty()) {
      const size_t end = rest.find('\0');
      const std::string_view piece = rest.substr(0, end);
      if (overlong_ || received_.size() + piece.size() > kMaxState) {
        overlong_ = true;
        received_.resize(std::min(received_.size(), size_t{1}));
        received_.shrink_to_fit();
      } else {
        received_.append(piece);
      }
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
      OnField(std::exchange(received_, {}));
      overlong_ = false;
      if (!socket_) return;
    }
  }
}

// Parses a field of the shell's report. The report is untrusted, because any script can write to
// the socket. It affects this session only.
void ResidentShell::OnField(std::string field) {
  if (field.empty() || (dead_ && field[0] == 'r')) return;
  const char kind = field[0];
  field.erase(0, 1);
  switch (kind) {
    case 'r':
      if (phase_ == Phase::kStarting && !state_.text.empty()) {
        phase_ = Phase::kRestoring;
        Send(OwnShellRequest(bash_, RestoringScript(bash_, state_)));
      } else if (phase_ == Phase::kMoving) {
        ::unlink(fifo_.c_str());
        OutputPipe::Abandon(std::exchange(out_, std::move(next_out_)));
        Rest();
      } else if (phase_ == Phase::kStarting || phase_ == Phase::kRestoring) {
        Rest();
      }
      break;
    case 's':
      if (phase_ == Phase::kRunning) {
        int code = 0;
        const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), code);
        if (error != std::errc() || code < 0 || code > 255) return;
        const std::string_view flags(end, static_cast<size_t>(field.data() + field.size() - end));
        state_.code = code;
        state_.traced = flags.find('x') != std::string_view::npos;
        state_.verbose = flags.find('v') != std::string_view::npos;
        out_->Drain();
        phase_ = Phase::kSettling;
        EndRun(job_->EndPart(code));
      }
      break;
    case 'd':
      next_.cwd = std::move(field);
      break;
    case 'e':
      next_.exit_trap = std::move(field);
      break;
    case 'v':
      Commit(std::move(field));
      if (phase_ == Phase::kSettling && !dead_) Settle();
      break;
    default:
      break;
  }
}

void ResidentShell::Commit(std::string text) {
  told_ = true;
  if (next_.cwd.starts_with('/')) state_.cwd = std::move(next_.cwd);
  state_.exit_trap = std::move(next_.exit_trap);
  state_.exit_trap_known = true;
  state_.too_large = overlong_ || g_state_bytes - counted_ + text.size() > kMaxStates;
  if (state_.too_large) return;
  state_.text = std::move(text);
  CountState(state_.text.size());
}

void ResidentShell::EndRun(const JobExit& exit) {
  core_.loop.Cancel(std::exchange(grace_, 0));
  const auto run = std::move(run_);
  out_->Resume();
  if (run) run->ended(exit);
}

void ResidentShell::Settle() {
  auto left = job_->LeaveOthers();
  if (left) {
    client_.left(std::move(left));
    bool ours = false;
    {
      const FileIdentity as(core_.user);
      const std::string open = "/proc/" + std::to_string(job_->pid()) + "/fd/";
      ours = out_->IsAt(open + "1") && out_->IsAt(open + "2");
    }
    // Otherwise the shell has put another program in between (`exec > >(tee log)`), and that
    // program holds the pipe.
    if (ours && MoveOutput()) return;
  }
  Rest();
}

Status ResidentShell::MoveOutput() {
  UniqueFd read_end;
  ATOLL_ASSIGN(fifo_, MakeFifo(core_.user, &read_end));
  auto adopted =
      OutputPipe::Adopt(&core_.loop, std::move(read_end), [this](std::string_view bytes) {
        if (phase_ == Phase::kRunning && run_) run_->output(bytes);
      });
  if (!adopted) {
    ::unlink(fifo_.c_str());
    return Fail(std::move(adopted).error());
  }
  next_out_ = std::move(*adopted);
  phase_ = Phase::kMoving;
  Send(OwnShellRequest(bash_, "\\exec >" + fifo_ + " 2>&1"));
  return {};
}

void ResidentShell::Rest() {
  phase_ = Phase::kIdle;
  // Output between runs belongs to no run.
  out_->Drain();
  if (run_) Begin(std::move(*std::exchange(run_, nullptr)));
  client_.settled();
}

void ResidentShell::Begin(Run run) {
  run_ = std::make_unique<Run>(std::move(run));
  told_ = false;
  if (phase_ != Phase::kIdle) return;
  out_->Drain();
  job_->BeginPart();
  phase_ = Phase::kRunning;
  Send(ShellRequest(bash_, state_, run_->script, run_->cwd));
  run_->script = {};
}

void ResidentShell::Interrupt(bool timed_out) {
  if (dead_ || interrupted_) return;
  interrupted_ = true;
  timed_out_ = timed_out;
  seen_cwd_ = DirectoryOf(job_->pid(), core_.user);
  job_->EndWhole();
  ::kill(job_->pid(), kEndSignal);
  grace_ = core_.loop.After(kEndUs, [this] {
    grace_ = 0;
    Kill();
  });
}

void ResidentShell::Kill() {
  if (job_) job_->Kill();
}

void ResidentShell::Release() {
  if (job_ && job_->running()) ::kill(job_->pid(), SIGKILL);
}

void ResidentShell::PauseOutput() {
  if (out_) out_->Pause();
}

void ResidentShell::ResumeOutput() {
  if (out_) out_->Resume();
}

void ResidentShell::Ended(JobExit exit) {
  const auto self = shared_from_this();
  dead_ = true;
  // The last report may still be in the socket.
  while (socket_) {
    char byte;
    if (::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) break;
    Receive();
  }
  if (socket_) core_.loop.Unwatch(watch_);
  socket_.reset();
  if (!fifo_.empty()) ::unlink(fifo_.c_str());
  out_->Drain();
  state_.code = exit.code < 0 ? 128 + exit.signal : exit.code;
  if (!told_ && !seen_cwd_.empty()) state_.cwd = seen_cwd_;
  std::unique_ptr<Run> unsent;
  if (interrupted_) {
    exit.code = -1;
    exit.signal = SIGKILL;
    exit.timed_out = timed_out_;
  } else if (phase_ == Phase::kIdle || phase_ == Phase::kSettling || phase_ == Phase::kMoving) {
    unsent = std::move(run_);
  }
  EndRun(exit);
  OutputPipe::Abandon(std::move(out_));
  client_.gone(std::move(unsent));
  // Keeps the object alive, because the job is the caller.
  core_.loop.Post([self] {});
}

}  // namespace atl::execd
