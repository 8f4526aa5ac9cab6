// atoll-guard: the first process of a sandbox behind gVisor. See README.md.
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <memory>
#include <string>

#include "runtime/base/acceptor.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/log.h"
#include "runtime/base/standard_streams.h"
#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"
#include "runtime/guard/first.h"
#include "runtime/guard/relay.h"
#include "runtime/guard/runsc.h"
#include "runtime/wire/guard.h"
#include "runtime/wire/start.h"
#include "runtime/wire/tier.h"

namespace atl::guard {
namespace {

// Strangers can open connections to the sandbox's ports and take nothing from them. More of them
// wait in the listener's queue. The kernel counts what its socket buffers hold as the sandbox's
// memory.
constexpr size_t kMaxRelays = 256;
constexpr int kSendBuffer = 16 << 10;
// A larger block of memory goes back to the kernel when it is freed.
constexpr int kKeptBlock = 4 << 10;

class Guard {
 public:
  // `execd`: its socket, which needs no name.
  Guard(EventLoop& loop, UniqueFd execd) : loop_(loop), execd_(std::move(execd)) {}

  Status Serve() {
    if (::fcntl(wire::kExecdListenFd, F_SETFL, O_RDWR | O_NONBLOCK) != 0) {
      return FailSys("fd 5, the listening socket");
    }
    ATOLL_ASSIGN(acceptor_, Acceptor::Start(loop_, wire::kExecdListenFd, {.name = "execd"},
                                            [this](Acceptor::Connection& connection) {
                                              PassOn(std::move(connection.socket));
                                            }));
    return {};
  }

 private:
  void PassOn(UniqueFd client) {
    UniqueFd execd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto address = UnixAddress(sys::FdPath(execd_.get()));
    // Closing the client's connection tells the daemon that execd cannot be reached.
    if (!execd || !address ||
        ::connect(execd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) !=
            0) {
      return;
    }
    for (const UniqueFd* socket : {&client, &execd}) {
      (void)::setsockopt(socket->get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
    }
    relays_.emplace_front();
    const auto self = relays_.begin();
    *self = std::make_unique<Relay>(loop_, std::move(client), std::move(execd),
                                    [this, self] { Remove(self); });
    if (!(*self)->Begin()) return Remove(self);
    if (relays_.size() == kMaxRelays) acceptor_->SetOpen(false);
  }

  void Remove(std::list<std::unique_ptr<Relay>>::iterator relay) {
    relays_.erase(relay);
    if (relays_.size() + 1 == kMaxRelays) acceptor_->SetOpen(true);
  }

  EventLoop& loop_;
  const UniqueFd execd_;
  std::list<std::unique_ptr<Relay>> relays_;
  std::unique_ptr<Acceptor> acceptor_;  // set by Serve
};

// Ends as the sandbox does.
void Reap(pid_t sandbox) {
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended <= 0) return;
    if (ended == sandbox) {
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
  }
}

void OnChild(int signals, pid_t sandbox) {
  signalfd_siginfo info[8];
  while (::read(signals, info, sizeof info) > 0) {
  }
  Reap(sandbox);
}

// Takes the name of execd's socket away, once execd listens, and returns the socket. Nothing in the
// sandbox leads to it, and its inode stays taken, so nothing can be made in its place.
Result<UniqueFd> HideSocket(int created, int signals, pid_t sandbox) {
  const std::string shared = std::string(wire::kGuardShared) + "/";
  const std::string ready = shared + wire::kGuardedReady;
  while (::access(ready.c_str(), F_OK) != 0) {
    if (errno != ENOENT) return FailSys("access " + ready);
    pollfd waiting[] = {{created, POLLIN, 0}, {signals, POLLIN, 0}};
    if (TEMP_FAILURE_RETRY(::poll(waiting, 2, -1)) < 0) return FailSys("poll");
    char event[sizeof(inotify_event) + NAME_MAX + 1];
    if (waiting[0].revents != 0 && ::read(created, event, sizeof event) < 0) {
      return FailSys("read inotify");
    }
    if (waiting[1].revents != 0) OnChild(signals, sandbox);
  }
  const std::string shown = shared + wire::kGuardedSocket;
  ATOLL_ASSIGN(UniqueFd socket, sys::Open(shown, O_PATH | O_NOFOLLOW));
  struct stat info {};
  if (::fstat(socket.get(), &info) != 0) return FailSys("fstat " + shown);
  if (!S_ISSOCK(info.st_mode)) return Fail(Code::kUnavailable, shown + " is no socket");
  if (::unlink(shown.c_str()) != 0) return FailSys("unlink " + shown);
  return socket;
}

// runsc has taken the link's addresses over, and removed those of IPv4 alone from it. The host's
// kernel would answer the sandbox's IPv6 connections with resets, as it knows of none.
Status LeaveIpv6() {
  Status off = sys::WriteFileAt(AT_FDCWD, "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
  if (!off && off.error().error_number() == ENOENT) return {};
  return off;
}

struct Sandbox {
  pid_t pid = -1;
  UniqueFd execd;  // its socket
};

Result<Sandbox> Start(int signals) {
  const UniqueFd created(::inotify_init1(IN_CLOEXEC));
  if (!created) return FailSys("inotify_init1");
  if (::inotify_add_watch(created.get(), wire::kGuardShared, IN_CREATE | IN_MOVED_TO) < 0) {
    return FailSys(std::string("inotify_add_watch ") + wire::kGuardShared);
  }
  Sandbox sandbox;
  ATOLL_ASSIGN(sandbox.pid, StartSandbox());
  ATOLL_TRY(LeaveIpv6());
  ATOLL_ASSIGN(sandbox.execd, HideSocket(created.get(), signals, sandbox.pid));
  ATOLL_TRY(KeepCapabilities(0));
  return sandbox;
}

int Run() {
  ::mallopt(M_MMAP_THRESHOLD, kKeptBlock);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_SETMASK, &child, nullptr);
  const UniqueFd signals(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  const auto loop = EventLoop::Create();
  if (!signals || !loop) return kCannotStart;
  if (!TakePass() || !PassGate()) return 0;
  auto sandbox = Start(signals.get());
  if (!sandbox) {
    TellFailure(wire::kGvisorTier, sandbox.error());
    return kCannotStart;
  }
  for (int fd : {wire::kExecdGateFd, wire::kExecdControlFd, wire::kGuardRuntimeFd}) ::close(fd);
  const auto watched = (*loop)->Watch(signals.get(), EPOLLIN,
                                      [&](uint32_t) { OnChild(signals.get(), sandbox->pid); });
  Guard guard(**loop, std::move(sandbox->execd));
  if (!watched || !guard.Serve()) return kCannotStart;
  Reap(sandbox->pid);
  (*loop)->Run();
  return 0;
}

}  // namespace
}  // namespace atl::guard

int main(int argc, char**) {
  atl::OpenStandardStreams();
  atl::InitLog("guard", atl::LogLevel::kInfo);
  // No flag exists; the spawner's trial of a new release gives one.
  if (argc != 1) return 2;
  return atl::guard::Run();
}
