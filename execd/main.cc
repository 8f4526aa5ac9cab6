// execd: process 1 of a sandbox. Waits for the daemon's start message, runs the entrypoint, reaps
// processes, and serves the exec API on the sockets that it has inherited. See README.md.
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "execd/execd.h"
#include "execd/http/connection.h"
#include "execd/options.h"
#include "runtime/base/log.h"
#include "runtime/base/standard_streams.h"
#include "runtime/base/sys.h"
#include "runtime/wire/session.h"
#include "runtime/wire/start.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

// Set by the linker: the start of the program, and the end of its initialised data (end(3)).
extern "C" char __executable_start, edata;

namespace atl::execd {
namespace {

constexpr int kCannotStart = 126;
constexpr int kNotFound = 127;

void CloseOnExecAll() {
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = 3; fd < 64; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Occupies descriptor 3 if there is no gate. A child moves its descriptors to 0 to 3 with dup2, so
// these numbers must never belong to a descriptor that a child will use.
void FillGate() {
  if (::fcntl(wire::kExecdGateFd, F_GETFD) >= 0) return;
  auto null = OpenNull();
  if (null && null->get() == wire::kExecdGateFd) (void)null->release();
}

// Protects execd from commands. A command that changes its uid must inherit nothing of execd, and a
// command with the same uid must not read its memory. prlimit(2) on execd is allowed to a process
// whose real uid and gid equal execd's real, effective and saved ids. If execd's saved gid differs
// from its real gid, no process can match. A different saved uid would do the same, but kill(2)
// checks the saved uid, so a process with that uid could signal execd.
void Protect() {
  ::prctl(PR_SET_DUMPABLE, 0);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_NAME, "execd");
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) == 0) {
    data[0].inheritable = data[1].inheritable = 0;
    ::syscall(SYS_capset, &header, data);
  }
  ::syscall(SYS_setresgid, 0, 0, 65534);
}

void LeanAllocator() {
  ::mallopt(M_ARENA_MAX, 1);
  // Fixed thresholds, because glibc raises them to the largest block freed so far and then keeps
  // such blocks.
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 64 << 10);
}

// Maps all pages of the program. They are in memory, but each would still fault once (2.5 µs in a
// virtual machine) in the first request that uses it. Needs Linux 5.14; older kernels take the
// faults.
void MapProgram() {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t start = reinterpret_cast<uintptr_t>(&__executable_start) & ~(page - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(&edata);
  ::madvise(reinterpret_cast<void*>(start), end - start, MADV_POPULATE_READ);
}

bool IsRegular(int fd) {
  struct stat info;
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

bool IsSocket(int fd) {
  struct stat info;
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

std::vector<int> TasksFds() {
  std::vector<int> fds;
  for (int i = 0; i < wire::kExecdMaxTasksFds; ++i) {
    const int fd = wire::kExecdFirstTasksFd + i;
    if (!IsRegular(fd)) break;
    fds.push_back(fd);
  }
  return fds;
}

bool IsDirectory(int fd) {
  struct stat info;
  return ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
}

void SendReport(int control, wire::StartReport::Kind kind, std::string_view text) {
  wire::StartReport report;
  report.kind = kind;
  report.message = text.substr(0, 4000);
  const std::string frame = wire::Frame(report.Encode());
  // The message is far smaller than any socket buffer. So it is either sent whole, or the daemon is
  // gone.
  [[maybe_unused]] const ssize_t n =
      ::send(control, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Reads the start message's frame from the control socket.
class Control {
 public:
  using OnMessage = std::function<void(Result<wire::StartMessage>)>;
  Control(EventLoop* loop, UniqueFd fd, OnMessage on_message)
      : loop_(*loop), fd_(std::move(fd)), on_message_(std::move(on_message)) {}

  Status Watch() {
    ATOLL_ASSIGN(watch_, loop_.Watch(fd_.get(), EPOLLIN, [this](uint32_t) { OnReadable(); }));
    OnReadable();
    return {};
  }
  // Returns the socket, which has another use after the start message.
  UniqueFd TakeSocket() {
    loop_.Unwatch(watch_);
    return std::move(fd_);
  }

 private:
  void OnReadable() {
    char buffer[4096];
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    // No daemon is left that could claim this sandbox.
    if (n <= 0) ::_exit(0);
    frames_.Append({buffer, static_cast<size_t>(n)});
    const auto frame = frames_.Next();
    if (!frame) return on_message_(Fail(Error(frame.error()).Wrap("start message")));
    if (!*frame) return OnReadable();
    auto message = wire::DecodeStartMessage(**frame);
    // Frees the buffer, which may be large.
    frames_ = wire::Frames(wire::kMaxStartFrame);
    on_message_(std::move(message));
  }

  EventLoop& loop_;
  UniqueFd fd_;
  OnMessage on_message_;
  EventLoop::Id watch_ = 0;
  wire::Frames frames_{wire::kMaxStartFrame};
};

// The connection of a session's execd to the sandbox's execd, over the control socket. The session
// ends with it. Messages are smaller than any socket buffer.
class Owner {
 public:
  explicit Owner(EventLoop* loop) : loop_(*loop) {}

  void Serve(Execd* daemon, const wire::StartMessage& message, UniqueFd connections,
             UniqueFd control) {
    control_ = std::move(control);
    const auto watched = loop_.Watch(control_.get(), EPOLLIN, [](uint32_t) { ::_exit(0); });
    Status started = watched ? Status() : Fail(watched.error());
    if (started) {
      started = daemon->StartSession(
          message, std::move(connections),
          [this](const wire::SessionNote& note) { Say(wire::EncodeFields(note)); });
    }
    wire::StartReport report;
    if (!started) {
      report.kind = wire::StartReport::Kind::kFailed;
      report.message = started.error().message().substr(0, 4000);
    }
    Say(report.Encode());
    if (!started) ::_exit(kCannotStart);
  }

 private:
  void Say(const std::string& message) const {
    if (!sys::SendMessage(control_.get(), wire::Frame(message))) ::_exit(0);
  }

  EventLoop& loop_;
  UniqueFd control_;
};

int Run(const Options& options) {
  // Reset, because execd may have inherited ignored signals, which every command would inherit in
  // turn. An ignored SIGCHLD would also make the kernel reap children itself.
  for (const int number : {SIGPIPE, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    ::signal(number, SIG_DFL);
  }
  sigset_t all;
  sigfillset(&all);
  // Blocked, not handled: process 1 then gets each signal through the signalfd, and a child starts
  // with default dispositions once it clears its mask.
  ::sigprocmask(SIG_SETMASK, &all, nullptr);

  // First, because descriptors opened later get the free numbers between the inherited ones.
  const std::vector<int> tasks_fds = TasksFds();
  const Accounts accounts = Accounts::Inherited();
  const int score_fd = IsRegular(wire::kExecdScoreFd) ? wire::kExecdScoreFd : -1;
  const bool own_line = options.vsock_port != 0 && IsSocket(wire::kExecdSessionsFd);
  auto loop = EventLoop::Create();
  UniqueFd signals(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!loop || !signals) return kCannotStart;
  Core core(loop->get(), IsDirectory(wire::kExecdCgroupFd) ? wire::kExecdCgroupFd : -1);
  core.tasks_fds = tasks_fds;
  core.accounts = accounts;
  core.score_fd = score_fd;
  Execd daemon(&core);
  if (auto prepared = daemon.Prepare(); !prepared) {
    LogLine(LogLevel::kError, "cannot start").Add(prepared.error());
    return kCannotStart;
  }
  if (own_line) daemon.UseSessionLine(UniqueFd(wire::kExecdSessionsFd));
  // Not in a session, because a client waits for the start of a session.
  if (options.session == 0) {
    core.leaves.Prepare(2);
    MapProgram();
  }

  UniqueFd control_fd, listener;
  std::function<bool(int)> accept_peer;
  if (auto opened = OpenSockets(options, &control_fd, &listener, &accept_peer, &core.pass);
      !opened) {
    // The gate will never open, and no daemon is there to get an error.
    if (opened.error().code() == Code::kUnavailable) return 0;
    LogLine(LogLevel::kError, "cannot start").Add(opened.error());
    return kCannotStart;
  }
  Owner owner(loop->get());
  std::optional<Control> control;
  control.emplace(loop->get(), std::move(control_fd), [&](Result<wire::StartMessage> message) {
    // A closed socket now only means that no daemon is there to be told.
    const auto socket = std::make_shared<UniqueFd>(control->TakeSocket());
    if (!message) {
      SendReport(socket->get(), wire::StartReport::Kind::kFailed, message.error().message());
      ::_exit(kCannotStart);
    }
    if (options.session != 0) {
      return owner.Serve(&daemon, *message, std::move(listener), std::move(*socket));
    }
    daemon.Start(
        *std::move(message), std::move(listener), accept_peer,
        [&daemon, socket](const Status& started) {
          using enum wire::StartReport::Kind;
          SendReport(socket->get(), started ? kStarted : kFailed,
                     started ? std::string() : started.error().message());
          daemon.FeedOutput(std::move(*socket));
          if (started) return;
          daemon.Leave(started.error().error_number() == ENOENT ? kNotFound : kCannotStart);
        });
  });
  const auto watched = (*loop)->Watch(signals.get(), EPOLLIN, [&](uint32_t) {
    signalfd_siginfo info[8];
    const ssize_t n = ::read(signals.get(), info, sizeof info);
    for (size_t i = 0; n > 0 && i < static_cast<size_t>(n) / sizeof info[0]; ++i) {
      daemon.OnSignal(static_cast<int>(info[i].ssi_signo));
    }
  });
  if (!watched || !control->Watch()) return kCannotStart;
  (*loop)->Run();
  return 0;
}

}  // namespace
}  // namespace atl::execd

int main(int argc, char** argv) {
  using namespace atl::execd;
  atl::OpenStandardStreams();
  CloseOnExecAll();
  Protect();
  LeanAllocator();
  FillGate();
  ::umask(022);
  atl::InitLog("execd", atl::LogLevel::kInfo);
  const auto options = ParseOptions(argc, argv);
  if (!options) {
    atl::LogLine(atl::LogLevel::kError, "bad command line").Add(options.error());
    return 2;
  }
  return Run(*options);
}
