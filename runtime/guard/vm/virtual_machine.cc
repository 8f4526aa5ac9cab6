#include "runtime/guard/vm/virtual_machine.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"
#include "runtime/guard/vm/qemu.h"

namespace atl::guard {
namespace {

constexpr uint64_t kGuestCid = 3;
// Limit from the guest's last message until the sandbox is gone.
constexpr int64_t kPowerOffUs = 10 * 1000 * 1000;
// Limit from the end of one process of the machine until the sandbox is gone.
constexpr int64_t kLastBytesUs = 1000 * 1000;

// A file server has a descriptor for each file that the guest knows, which takes 2.5 KiB of the
// kernel's memory. The guest's init keeps to fewer (runtime/guest/known_files.h); a guest that does
// not is told that there are too many open files.
constexpr uint64_t kMostKnownFiles = 64 << 10;

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

}  // namespace

VirtualMachine::VirtualMachine(EventLoop& loop, const wire::Hardware& hardware, Events events)
    : loop_(loop),
      hardware_(hardware),
      events_(std::move(events)),
      console_(loop),
      guest_(
          loop,
          {.ready =
               [this] {
                 ready_ = true;
                 events_.ready();
               },
           .ended = [this](int code) { TakeExitCode(code); },
           .failed = [this](const std::string& why) { End([&] { events_.failed(Shown(why)); }); },
           .synced = [this](const wire::vm::Synced& synced) { events_.synced(synced); }}) {}

VirtualMachine::~VirtualMachine() {
  for (const EventLoop::Id timer : {last_bytes_, power_off_}) loop_.Cancel(timer);
  for (const auto& [pid, part] : parts_) ::kill(pid, SIGKILL);
  for (const auto& [pid, part] : parts_) {
    loop_.Unwatch(part.watch);
    (void)TEMP_FAILURE_RETRY(::waitpid(pid, nullptr, 0));
  }
}

Status VirtualMachine::Start(int tap) {
  ATOLL_ASSIGN(const UniqueFd console, console_.Open());
  ATOLL_ASSIGN(const UniqueFd root,
               StartFileServer(wire::kRootTag, wire::kMachineSharedRoot, "always", console));
  // Other sandboxes may change them.
  ATOLL_ASSIGN(const UniqueFd volumes,
               StartFileServer(wire::kVolumesTag, wire::kMachineSharedVolumes, "auto", console));
  ATOLL_ASSIGN(Line vsock, MakeLine("vsock"));
  ATOLL_ASSIGN(device_, vsock::VsockDevice::Start(
                            loop_, std::move(vsock.listener), kGuestCid,
                            [this](uint32_t port) { return Dialled(port); },
                            [this](const Status& how) { Drained(how); }));
  const QemuDescriptors descriptors{
      .vsock = vsock.client.get(), .root = root.get(), .volumes = volumes.get(), .tap = tap};
  const Process qemu{
      .program = hardware_.qemu,
      .arguments = QemuArguments(hardware_, descriptors, TscKhz()),
      .descriptors = {descriptors.vsock, descriptors.root, descriptors.volumes, descriptors.tap},
      .console = console.get(),
      .monitor = true};
  return StartPart(qemu, "the virtual machine");
}

Status VirtualMachine::StartPart(const Process& process, std::string name) {
  ATOLL_ASSIGN(const pid_t pid, guard::Start(process));
  Part& part = parts_[pid];
  part.name = std::move(name);
  ATOLL_ASSIGN(part.pidfd, sys::PidfdOpen(pid));
  ATOLL_ASSIGN(part.watch, loop_.OnExit(part.pidfd.get(), [this, pid](std::optional<int> status) {
    Ended(pid, status.value_or(0));
  }));
  return {};
}

Result<UniqueFd> VirtualMachine::StartFileServer(const char* tag, const char* directory,
                                                 const char* cache, const UniqueFd& console) {
  ATOLL_ASSIGN(Line line, MakeLine(tag));
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("getrlimit NOFILE");
  const Process server{
      .program = hardware_.virtiofsd,
      .arguments = {"--fd=" + std::to_string(line.listener.get()), "--thread-pool-size=0",
                    "--rlimit-nofile=" +
                        std::to_string(std::min<uint64_t>(files.rlim_max, kMostKnownFiles)),
                    "-o", std::string("source=") + directory,  //
                    "-o", std::string("cache=") + cache,       //
                    "-o", "xattr,announce_submounts",
                    // It is in the slot's namespaces, and sees what is mounted there.
                    "-o", "sandbox=chroot"},
      .descriptors = {line.listener.get()},
      .console = console.get(),
      .capabilities = kFileServerRights};
  ATOLL_TRY(StartPart(server, std::string("the file server of the virtual machine (") + tag + ")"));
  return std::move(line.client);
}

void VirtualMachine::Ended(pid_t pid, int status) {
  const auto part = parts_.extract(pid);
  if (exit_code_ || !end_.empty()) return;
  end_ = part.mapped().name + (WIFSIGNALED(status)
                                   ? " was killed by signal " + std::to_string(WTERMSIG(status))
                                   : std::string(" has ended"));
  // The guest's last words may still be on their way to the guard. The file servers end with the
  // monitor.
  last_bytes_ = loop_.After(kLastBytesUs, [this] { End([this] { events_.failed(end_); }); });
}

// There are two ports of the host, each for one connection.
Result<UniqueFd> VirtualMachine::Dialled(uint32_t port) {
  if (port == wire::vm::kInitPort) return guest_.Connect();
  if (port == wire::vm::kControlPort) return events_.execd_control();
  return Fail(Code::kNotFound, "nobody listens there");
}

// The monitor has gone, and all that the guest had sent is where it belongs.
void VirtualMachine::Drained(const Status& how) {
  device_ended_ = true;
  guest_.Read();
  if (exit_code_) {
    End([this] { events_.ended(*exit_code_); });
  } else if (!how) {
    End([&] { events_.failed("the virtual machine's sockets: " + how.error().message()); });
  } else if (!end_.empty()) {
    End([this] { events_.failed(end_); });
  }
}

void VirtualMachine::TakeExitCode(int code) {
  if (!exit_code_) exit_code_ = code;
  const auto tell = [this] { End([this] { events_.ended(*exit_code_); }); };
  // Its monitor ends by itself, and then there is no more on its way.
  if (device_ended_) return tell();
  power_off_ = loop_.After(kPowerOffUs, tell);
}

void VirtualMachine::End(const std::function<void()>& tell) {
  if (!std::exchange(over_, true)) tell();
}

}  // namespace atl::guard
