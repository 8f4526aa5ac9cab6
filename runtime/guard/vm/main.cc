// atoll-vm: the first process of a sandbox in a virtual machine. See ../README.md.
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/acceptor.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/log.h"
#include "runtime/base/standard_streams.h"
#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"
#include "runtime/guard/first.h"
#include "runtime/guard/vm/console.h"
#include "runtime/guard/vm/guest.h"
#include "runtime/guard/vm/processes.h"
#include "runtime/guard/vm/qemu.h"
#include "runtime/guard/vm/tap.h"
#include "runtime/guard/vsock/vsock_device.h"
#include "runtime/wire/machine.h"
#include "runtime/wire/start.h"
#include "runtime/wire/tier.h"

namespace atl::guard {
namespace {

constexpr size_t kMaxMachine = 128 << 10;
constexpr uint64_t kGuestCid = 3;
constexpr size_t kMaxSyncs = 8;
// Limit from the start of the monitor until execd is there. On a busy machine emulation takes
// several times its usual three seconds.
constexpr int64_t kBootUs = 30 * 1000 * 1000;
constexpr int64_t kEmulatedBootUs = 120 * 1000 * 1000;
// Limit from the guest's last message until the sandbox is gone.
constexpr int64_t kPowerOffUs = 10 * 1000 * 1000;
// Limit from the end of one process of the machine until the sandbox is gone.
constexpr int64_t kLastBytesUs = 1000 * 1000;

// A file server of the slot's root needs the rights over files, those of setting up its own walls,
// and mknod for the pipes and sockets of the guest.
constexpr uint64_t kFileServerRights = uint64_t{1} << CAP_CHOWN | uint64_t{1} << CAP_DAC_OVERRIDE |
                                       uint64_t{1} << CAP_FOWNER | uint64_t{1} << CAP_FSETID |
                                       uint64_t{1} << CAP_SETGID | uint64_t{1} << CAP_SETUID |
                                       uint64_t{1} << CAP_MKNOD | uint64_t{1} << CAP_SETFCAP |
                                       uint64_t{1} << CAP_SETPCAP | uint64_t{1} << CAP_SYS_CHROOT;

// A server's listening socket and a connection to it.
struct Line {
  UniqueFd listener;
  UniqueFd client;
};

Result<Line> MakeLine(const std::string& name) {
  const std::string path = std::string("/guard/") + name;
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(path));
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  Line line{UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
            UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  if (!line.listener || !line.client) return FailSys("socket AF_UNIX");
  if (::bind(line.listener.get(), at, sizeof address) != 0) return FailSys("bind " + path);
  if (::listen(line.listener.get(), 1) != 0) return FailSys("listen " + path);
  if (::connect(line.client.get(), at, sizeof address) != 0) return FailSys("connect " + path);
  ::unlink(path.c_str());
  return line;
}

// The rate of the time stamp counter. 0: unknown.
uint64_t TscKhz() {
  const auto text = sys::ReadFileAt(AT_FDCWD, "/proc/cpuinfo", 1 << 20);
  if (!text) return 0;
  const size_t line = text->find("cpu MHz");
  const size_t colon = line == std::string::npos ? line : text->find(':', line);
  if (colon == std::string::npos) return 0;
  const size_t digit = text->find_first_not_of(" \t", colon + 1);
  double mhz = 0;
  if (digit != std::string::npos) {
    std::from_chars(text->data() + digit, text->data() + text->size(), mhz);
  }
  return static_cast<uint64_t>(mhz * 1000);
}

Result<wire::Machine> ReadMachine() {
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, wire::kMachineFile, kMaxMachine));
  wire::Machine machine;
  if (!wire::DecodeFields(text, &machine)) {
    return Fail(Code::kInternal, std::string(wire::kMachineFile) + ": malformed");
  }
  return machine;
}

class Guard {
 public:
  explicit Guard(EventLoop& loop) : loop_(loop), console_(loop) {}

  Status Start() {
    ATOLL_ASSIGN(machine_, ReadMachine());
    ATOLL_ASSIGN(const bool linked, ReadLink(&machine_.go));
    if (linked) ATOLL_TRY(JoinTap(wire::kMachineTunFd, machine_.go.mtu));
    ATOLL_ASSIGN(const UniqueFd console, console_.Open());
    ATOLL_ASSIGN(const UniqueFd root,
                 StartFileServer(wire::kRootTag, wire::kMachineSharedRoot, "always", console));
    UniqueFd volumes;
    if (!machine_.go.shares.empty()) {
      // Other sandboxes may change them.
      ATOLL_ASSIGN(volumes, StartFileServer(wire::kVolumesTag, wire::kMachineSharedVolumes, "auto",
                                            console));
    }
    ATOLL_ASSIGN(Line vsock, MakeLine("vsock"));
    ATOLL_ASSIGN(device_, vsock::VsockDevice::Start(
                              loop_, std::move(vsock.listener), kGuestCid,
                              [this](uint32_t port) { return Dialled(port); },
                              [this](const Status& how) { Drained(how); }));
    const QemuDescriptors descriptors{.vsock = vsock.client.get(),
                                      .root = root.get(),
                                      .volumes = volumes ? volumes.get() : -1,
                                      .tap = linked ? wire::kMachineTunFd : -1};
    Process qemu{.program = machine_.qemu,
                 .arguments = QemuArguments(machine_, descriptors, TscKhz()),
                 .console = console.get(),
                 .monitor = true};
    for (const int fd :
         {descriptors.vsock, descriptors.root, descriptors.volumes, descriptors.tap}) {
      if (fd >= 0) qemu.descriptors.push_back(fd);
    }
    ATOLL_ASSIGN(const pid_t pid, guard::Start(qemu));
    parts_[pid] = "the virtual machine";
    ::close(wire::kMachineTunFd);
    ATOLL_TRY(KeepCapabilities(0));
    boot_ = loop_.After(machine_.kvm ? kBootUs : kEmulatedBootUs,
                        [this] { Fail("the virtual machine does not start in time"); });
    return {};
  }

  // One of the processes has ended.
  void Ended(pid_t pid, int status) {
    const auto part = parts_.find(pid);
    if (part == parts_.end()) return;
    if (exit_code_ || !end_.empty()) return;
    end_ = part->second + (WIFSIGNALED(status)
                               ? " was killed by signal " + std::to_string(WTERMSIG(status))
                               : std::string(" has ended"));
    // The guest's last words may still be on their way to the guard. The file servers end with the
    // monitor.
    loop_.After(kLastBytesUs, [this] { Fail(end_); });
  }

 private:
  Result<UniqueFd> StartFileServer(const char* tag, const char* directory, const char* cache,
                                   const UniqueFd& console) {
    ATOLL_ASSIGN(Line line, MakeLine(tag));
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("getrlimit NOFILE");
    const Process server{
        .program = machine_.virtiofsd,
        .arguments = {"--fd=" + std::to_string(line.listener.get()), "--thread-pool-size=0",
                      // It holds a descriptor for each file that the guest knows.
                      "--rlimit-nofile=" + std::to_string(files.rlim_max),  //
                      "-o", std::string("source=") + directory,             //
                      "-o", std::string("cache=") + cache,                  //
                      "-o", "xattr,announce_submounts",
                      // It is in the slot's namespaces, and sees what is mounted there.
                      "-o", "sandbox=chroot"},
        .descriptors = {line.listener.get()},
        .console = console.get(),
        .capabilities = kFileServerRights};
    ATOLL_ASSIGN(const pid_t pid, guard::Start(server));
    parts_[pid] = std::string("the file server of the virtual machine (") + tag + ")";
    return std::move(line.client);
  }

  Status Serve() {
    if (::fcntl(wire::kExecdListenFd, F_SETFL, O_RDWR | O_NONBLOCK) != 0) {
      return FailSys("fd 5, the listening socket");
    }
    ATOLL_ASSIGN(acceptor_, Acceptor::Start(loop_, wire::kExecdListenFd, {.name = "execd"},
                                            [this](Acceptor::Connection& connection) {
                                              device_->Connect(wire::vm::kExecPort,
                                                               std::move(connection.socket));
                                            }));
    ATOLL_ASSIGN(syncer_, Acceptor::Start(loop_, wire::kMachineSyncFd, {.name = "sync"},
                                          [this](Acceptor::Connection& connection) {
                                            AskForSync(std::move(connection.socket));
                                          }));
    return {};
  }

  // Whoever asks waits for all that is dirty now.
  void AskForSync(UniqueFd socket) {
    if (!guest_.Say(wire::vm::Sync{++syncs_})) return;
    waiting_[syncs_] = std::move(socket);
    // A guest may never answer.
    if (waiting_.size() > kMaxSyncs) waiting_.erase(waiting_.begin());
  }

  void Synced(const wire::vm::Synced& synced) {
    const auto waiting = waiting_.extract(synced.number);
    if (waiting.empty() || synced.errno_value != 0) return;
    (void)::send(waiting.mapped().get(), &wire::kSynced, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // The guest connects to a port of the host. There are two, each for one connection.
  Result<UniqueFd> Dialled(uint32_t port) {
    if (port == wire::vm::kInitPort) return guest_.Connect();
    if (port == wire::vm::kControlPort && !std::exchange(joined_, true)) {
      loop_.Cancel(std::exchange(boot_, 0));
      ::fcntl(wire::kExecdControlFd, F_SETFL, O_RDWR | O_NONBLOCK);
      // execd listens before it dials. Earlier connections wait in the listener's queue.
      loop_.Post([this] {
        if (const Status serves = Serve(); !serves) Fail(serves.error().message());
      });
      return UniqueFd(wire::kExecdControlFd);
    }
    return ::atl::Fail(Code::kNotFound, "nobody listens there");
  }

  void Go() {
    if (const Status said = guest_.Say(machine_.go); !said) Fail(said.error().message());
  }

  // The monitor has gone, and all that the guest had sent is where it belongs.
  void Drained(const Status& how) {
    device_ended_ = true;
    guest_.Read();
    if (exit_code_) ::_exit(*exit_code_);
    if (!how) Fail("the virtual machine's sockets: " + how.error().message());
    if (!end_.empty()) Fail(end_);
  }

  void TakeExitCode(int code) {
    if (!exit_code_) exit_code_ = code;
    // Its monitor ends by itself, and then there is no more on its way.
    if (device_ended_) ::_exit(*exit_code_);
    loop_.After(kPowerOffUs, [this] { ::_exit(*exit_code_); });
  }

  // Ends the sandbox. Once execd has the control socket, nobody else writes there.
  [[noreturn]] void Fail(const std::string& why) {
    if (!joined_) {
      std::string message = why;
      if (const std::string said = console_.Tail(); !said.empty()) message += "\n" + said;
      TellFailure(wire::kMicrovmTier, Error(Code::kUnavailable, std::move(message)));
    }
    ::_exit(kCannotStart);
  }

  EventLoop& loop_;
  wire::Machine machine_;
  Console console_;
  std::map<pid_t, std::string> parts_;
  Guest guest_{loop_,
               {.ready = [this] { Go(); },
                .ended = [this](int code) { TakeExitCode(code); },
                .failed = [this](const std::string& why) { Fail(Shown(why)); },
                .synced = [this](const wire::vm::Synced& synced) { Synced(synced); }}};
  std::unique_ptr<vsock::VsockDevice> device_;
  std::unique_ptr<Acceptor> acceptor_;  // accepts connections to execd
  std::unique_ptr<Acceptor> syncer_;
  std::map<uint64_t, UniqueFd> waiting_;  // the key is the number of the sync
  uint64_t syncs_ = 0;
  EventLoop::Id boot_ = 0;
  bool joined_ = false;
  bool device_ended_ = false;
  std::string end_;  // the part that has ended, and how
  std::optional<int> exit_code_;
};

int Run() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_SETMASK, &child, nullptr);
  const UniqueFd signals(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  const auto loop = EventLoop::Create();
  if (!signals || !loop) return kCannotStart;
  if (!PassGate()) return 0;
  for (const int fd :
       {wire::kExecdControlFd, wire::kExecdListenFd, wire::kMachineTunFd, wire::kMachineSyncFd}) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  ::close(wire::kExecdGateFd);
  Guard guard(**loop);
  const auto watched = (*loop)->Watch(signals.get(), EPOLLIN, [&](uint32_t) {
    signalfd_siginfo info[8];
    while (::read(signals.get(), info, sizeof info) > 0) {
    }
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) guard.Ended(pid, status);
  });
  Status started = watched ? guard.Start() : Status(Fail(watched.error()));
  if (!started) {
    TellFailure(wire::kMicrovmTier, started.error());
    return kCannotStart;
  }
  (*loop)->Run();
  return 0;
}

}  // namespace
}  // namespace atl::guard

int main(int argc, char**) {
  atl::OpenStandardStreams();
  atl::InitLog("vm", atl::LogLevel::kInfo);
  // No flag exists; the spawner's trial of a new release gives one.
  if (argc != 1) return 2;
  return atl::guard::Run();
}
