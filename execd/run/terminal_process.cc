#include "execd/run/terminal_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

constexpr size_t kMaxInput = 1 << 20;
constexpr int64_t kLingerUs = 50'000;
constexpr size_t kTerminalRead = 32 << 10;
char g_from_terminal[kTerminalRead];

void BecomeShell(const std::string& shell, const std::string& command, SpawnSpec* spec) {
  spec->programs = {shell.empty() ? "/bin/sh" : shell};
  if (shell.ends_with("/bash")) {
    spec->argv = {"bash", "--norc", "--noprofile"};
  } else {
    spec->argv = {"sh"};
  }
  if (command.empty()) return;
  spec->argv.push_back("-c");
  spec->argv.push_back(command);
}

}  // namespace

int TerminalSignal(std::string_view name) {
  if (name == "SIGINT") return SIGINT;
  if (name == "SIGTERM") return SIGTERM;
  if (name == "SIGKILL") return SIGKILL;
  if (name == "SIGQUIT") return SIGQUIT;
  if (name == "SIGHUP") return SIGHUP;
  return 0;
}

Result<UniqueFd> TerminalProcess::OpenMaster(const Identity& identity) {
  // The user that opens the terminal owns it.
  const FileIdentity as(identity);
  ATOLL_ASSIGN(UniqueFd master, sys::Open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK));
  int unlock = 0;
  if (::ioctl(master.get(), TIOCSPTLCK, &unlock) != 0) return FailSys("unlock terminal");
  return master;
}

Status TerminalProcess::OpenSlave(SpawnSpec* spec, UniqueFd* slave) {
  // Not opened by the name /dev/pts/N, because another file may be in its place (CVE-2025-52565).
  const int fd = ::ioctl(master_.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return FailSys("ioctl TIOCGPTPEER");
  slave->reset(fd);
  Resize(80, 24);
  for (int& end : spec->stdio) end = fd;
  spec->controlling_tty = true;
  return {};
}

Status TerminalProcess::OpenPipes(SpawnSpec* spec, UniqueFd ends[3]) {
  ATOLL_ASSIGN(sys::Pipe in, sys::MakePipe());
  ends[0] = std::move(in.read);
  master_ = std::move(in.write);
  if (::fcntl(master_.get(), F_SETFL, O_NONBLOCK) != 0) return FailSys("fcntl O_NONBLOCK");
  ATOLL_ASSIGN(out_, OutputPipe::Open(&core_.loop, &ends[1], [this](std::string_view bytes) {
                 callbacks_.output(false, bytes);
               }));
  ATOLL_ASSIGN(err_, OutputPipe::Open(&core_.loop, &ends[2], [this](std::string_view bytes) {
                 callbacks_.output(true, bytes);
               }));
  for (int i = 0; i < 3; ++i) spec->stdio[i] = ends[i].get();
  return {};
}

Result<std::unique_ptr<TerminalProcess>> TerminalProcess::Start(Core* core, const Program& program,
                                                                UniqueFd master,
                                                                Callbacks callbacks) {
  std::unique_ptr<TerminalProcess> process(new TerminalProcess(core, std::move(callbacks)));
  TerminalProcess* raw = process.get();
  const bool pty = static_cast<bool>(master);
  process->pty_ = pty;
  process->master_ = std::move(master);
  SpawnSpec spec;
  UniqueFd ends[3], directory;
  ATOLL_TRY(pty ? process->OpenSlave(&spec, &ends[0]) : process->OpenPipes(&spec, ends));
  if (!program.cwd.empty()) {
    ATOLL_ASSIGN(directory, OpenDirectory(program.cwd, program.identity));
    spec.cwd = directory.get();
  }
  Environment env = core->CommandEnvironment(program.envs, program.identity);
  if (program.argv.empty()) {
    BecomeShell(core->Shell(), program.command, &spec);
  } else {
    spec.argv = program.argv;
    spec.programs = PlacedCandidates(spec.argv[0], env);
  }
  if (pty && !env.Get("TERM")) env.Set("TERM", "xterm-256color");
  spec.env = env.entries();
  spec.identity = &program.identity;
  ATOLL_ASSIGN(process->job_, Job::Start(core, std::move(spec), 0,
                                         [raw](const JobExit& exit) { raw->Ended(exit); }));
  process->WatchMaster();
  return process;
}

TerminalProcess::~TerminalProcess() {
  core_.loop.Unwatch(watch_);
  core_.loop.Cancel(linger_);
  OutputPipe::Abandon(std::move(out_));
  OutputPipe::Abandon(std::move(err_));
}

// Removes the master from epoll if no events are wanted, because epoll would report a hang-up
// anyway.
void TerminalProcess::WatchMaster() {
  uint32_t events = 0;
  if (pty_ && !paused_) events |= EPOLLIN;
  if (!input_.empty()) events |= EPOLLOUT;
  core_.loop.Unwatch(watch_);
  watch_ = 0;
  if (events == 0 || !master_) return;
  const auto id =
      core_.loop.Watch(master_.get(), events, [this](uint32_t happened) { OnMaster(happened); });
  if (id) watch_ = *id;
}

void TerminalProcess::OnMaster(uint32_t events) {
  if (events & EPOLLOUT) FlushInput();
  if (!pty_) {
    if (events & (EPOLLERR | EPOLLHUP)) {
      CloseInput();  // no process reads it any more
    }
    return;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !paused_ && !ReadMaster()) {
    // All slaves are closed. The exit of the shell itself is reported separately.
    core_.loop.Unwatch(watch_);
    watch_ = 0;
    if (exited_) Finish();
  }
}

bool TerminalProcess::ReadMaster() {
  const ssize_t n = ::read(master_.get(), g_from_terminal, kTerminalRead);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) return false;
  callbacks_.output(false, {g_from_terminal, static_cast<size_t>(n)});
  return true;
}

bool TerminalProcess::Write(std::string_view bytes) {
  if (!master_ || input_ended_ || input_.size() + bytes.size() > kMaxInput) return false;
  const bool idle = input_.empty();
  input_.append(bytes);
  if (idle) FlushInput();
  return true;
}

void TerminalProcess::FlushInput() {
  const bool waited = watch_ != 0 && !input_.empty();
  while (!input_.empty()) {
    const ssize_t n = ::write(master_.get(), input_.data(), input_.size());
    if (n <= 0) {
      if (n < 0 && errno != EAGAIN && errno != EINTR) input_.clear();
      break;
    }
    input_.erase(0, static_cast<size_t>(n));
  }
  WatchMaster();
  if (waited && input_.empty()) callbacks_.input_drained();
  if (input_ended_ && input_.empty()) CloseInput();
}

void TerminalProcess::EndInput() {
  constexpr char kEndOfFile[] = "\x04";
  if (pty_) {
    Write(kEndOfFile);
    return;
  }
  input_ended_ = true;
  if (input_.empty()) CloseInput();
}

// Closes the input pipe. Not for terminals, whose master also carries the output.
void TerminalProcess::CloseInput() {
  core_.loop.Unwatch(watch_);
  watch_ = 0;
  master_.reset();
  input_.clear();
}

void TerminalProcess::Resize(int columns, int rows) {
  if (!pty_) return;
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  ::ioctl(master_.get(), TIOCSWINSZ, &size);
}

void TerminalProcess::PauseOutput() {
  if (paused_) return;
  paused_ = true;
  if (out_) out_->Pause();
  if (err_) err_->Pause();
  WatchMaster();
}

void TerminalProcess::ResumeOutput() {
  if (!paused_) return;
  paused_ = false;
  if (out_) out_->Resume();
  if (err_) err_->Resume();
  WatchMaster();
}

void TerminalProcess::Ended(const JobExit& exit) {
  exited_ = true;
  exit_ = exit;
  if (!pty_) {
    out_->Drain();
    err_->Drain();
    Finish();
  } else if (watch_ == 0 && !paused_) {
    Finish();
  } else {
    FinishWhenDrained();
  }
}

// The kernel moves a terminal's last output to the master after the writer has exited. The output
// ends when the last slave is closed; background processes may keep one open.
void TerminalProcess::FinishWhenDrained() {
  linger_ = core_.loop.After(kLingerUs, [this] {
    if (paused_) {
      FinishWhenDrained();
    } else {
      Finish();
    }
  });
}

void TerminalProcess::Finish() {
  core_.loop.Cancel(linger_);
  callbacks_.exit(exit_);
}

}  // namespace atl::execd
