// atoll-vm-init: process 1 of a sandbox's virtual machine. See README.md.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <variant>

#include "runtime/base/log.h"
#include "runtime/base/standard_streams.h"
#include "runtime/base/sys.h"
#include "runtime/guest/channel.h"
#include "runtime/guest/groups.h"
#include "runtime/guest/known_files.h"
#include "runtime/guest/modules.h"
#include "runtime/guest/network.h"
#include "runtime/guest/sandbox.h"
#include "runtime/guest/sessions.h"
#include "runtime/guest/shares.h"
#include "runtime/spawner/slot/slot_proc.h"
#include "runtime/wire/vm.h"

namespace atl::guest {
namespace {

using wire::vm::Ended;
using wire::vm::Failed;
using wire::vm::Go;

// The guard reads at once. It gets this long when the host is busy.
constexpr int kLastWordsMs = 10'000;

// The guard's machine ends at a reset.
[[noreturn]] void Reset() {
  ::reboot(RB_AUTOBOOT);
  ::_exit(1);
}

void SayLast(Channel& channel, const wire::vm::FromGuest& message) {
  if (channel.Send(message)) channel.AwaitClose(kLastWordsMs);
}

Status MountOwn(const char* type, const char* path) {
  if (::mkdir(path, 0755) != 0 && errno != EEXIST) return FailSys(std::string("mkdir ") + path);
  if (::mount(type, path, type, 0, nullptr) != 0) return FailSys(std::string("mount ") + path);
  return {};
}

// Does everything that takes no knowledge of the sandbox.
Result<Channel> Boot() {
  ATOLL_TRY(MountOwn("proc", "/proc"));
  ATOLL_TRY(MountOwn("sysfs", "/sys"));
  // Before the link exists, which takes the defaults of that moment.
  ATOLL_ASSIGN(const UniqueFd sysctls, sys::Open("/proc/sys", O_RDONLY | O_DIRECTORY));
  ATOLL_TRY(spawner::SetNetworkDefaults(sysctls.get()));
  ATOLL_TRY(LoadModules());
  return Channel::Dial();
}

// Serves the guard until execd has ended. Returns execd's exit code.
class Service {
 public:
  Service(Channel& channel, const Shares& shares, int signals, pid_t execd)
      : channel_(channel), shares_(shares), signals_(signals), execd_(execd) {}

  Result<uint32_t> Run() {
    for (;;) {
      pollfd waiting[] = {{channel_.socket(), POLLIN, 0}, {signals_, POLLIN, 0}};
      if (::poll(waiting, 2, files_.Bound()) < 0 && errno != EINTR) return FailSys("poll");
      if (waiting[1].revents != 0) {
        signalfd_siginfo info;
        while (::read(signals_, &info, sizeof info) > 0) {
        }
        int status = 0;
        if (::waitpid(execd_, &status, WNOHANG) == execd_) {
          return static_cast<uint32_t>(WIFEXITED(status) ? WEXITSTATUS(status)
                                                         : 128 + WTERMSIG(status));
        }
      }
      if (waiting[0].revents != 0) ATOLL_TRY(ServeArrived());
    }
  }

 private:
  Status ServeArrived() {
    for (;;) {
      ATOLL_ASSIGN(const auto message, channel_.ReceiveArrived());
      if (!message) return {};
      if (std::holds_alternative<wire::vm::Stop>(*message)) Reset();
      const auto* sync = std::get_if<wire::vm::Sync>(&*message);
      if (sync == nullptr) return Fail(Code::kInvalidArgument, "a second Go");
      const auto error = static_cast<uint32_t>(shares_.Sync());
      ATOLL_TRY(channel_.Send(wire::vm::Synced{sync->number, error}));
    }
  }

  Channel& channel_;
  const Shares& shares_;
  const int signals_;
  const pid_t execd_;
  KnownFiles files_;
};

Result<uint32_t> RunSandbox(Channel& channel, int signals) {
  ATOLL_ASSIGN(const wire::vm::ToGuest first, channel.Receive());
  if (std::holds_alternative<wire::vm::Stop>(first)) Reset();
  const Go* go = std::get_if<Go>(&first);
  if (go == nullptr) return Fail(Code::kInvalidArgument, "the first message is no Go");
  ATOLL_ASSIGN(const Shares shares, Shares::Mount(*go));
  ATOLL_TRY(SetUpNetwork(*go));
  ATOLL_ASSIGN(const Groups groups, MakeGroups(go->pids));
  ATOLL_ASSIGN(sys::SocketPair line, sys::UnixPair(SOCK_STREAM));
  ATOLL_ASSIGN(const pid_t execd, StartSandbox(*go, groups, std::move(line.a)));
  ATOLL_TRY(StartSessions(*go, groups.tree, std::move(line.b), execd));
  ATOLL_ASSIGN(const uint32_t code, Service(channel, shares, signals, execd).Run());
  (void)shares.Sync();
  return code;
}

[[noreturn]] void Run() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_SETMASK, &child, nullptr);
  const UniqueFd signals(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  auto channel = Boot();
  if (!channel || !signals) {
    LogLine(LogLevel::kError, "cannot start").Add(channel ? SysError("signalfd") : channel.error());
    Reset();
  }
  if (channel->Send(wire::vm::Ready{})) {
    const auto code = RunSandbox(*channel, signals.get());
    if (code) {
      SayLast(*channel, Ended{*code});
    } else {
      SayLast(*channel, Failed{code.error().message()});
    }
  }
  Reset();
}

// The kernel gives process 1 of an initramfs without /dev/console no descriptor. Standard error
// leads to the kernel's log.
void OpenDevices() {
  [[maybe_unused]] const Status mounted = MountOwn("devtmpfs", "/dev");
  OpenStandardStreams();
  const UniqueFd log(::open("/dev/kmsg", O_WRONLY | O_CLOEXEC));
  if (log) ::dup2(log.get(), STDERR_FILENO);
}

}  // namespace
}  // namespace atl::guest

int main() {
  atl::guest::OpenDevices();
  atl::InitLog("vm-init", atl::LogLevel::kInfo);
  atl::guest::Run();
}
