// atoll-spawner: the only process of Atoll that is root. See README.md in this folder.

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cgroup/host.h"
#include "cgroup/keyed_number.h"
#include "runtime/base/core_dump.h"
#include "runtime/base/log.h"
#include "runtime/base/notify.h"
#include "runtime/base/plain_file.h"
#include "runtime/base/standard_streams.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/instance.h"
#include "runtime/spawner/kernel/cgroup_holder.h"
#include "runtime/spawner/kernel/execute.h"
#include "runtime/spawner/kernel/link_bytes.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/layers/unpacker.h"
#include "runtime/spawner/memory/swap_device.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/spawner/rules/own_paths.h"
#include "runtime/spawner/server.h"
#include "runtime/spawner/store/store_image.h"
#include "runtime/spawner/successor.h"
#include "runtime/spawner/trial.h"
#include "runtime/wire/session.h"

namespace atl::spawner {
namespace {

constexpr size_t kMaxExecd = 16 << 20;

// Copies a first program of slots into memory that nobody can write. No sandbox can read it,
// because it is root's with mode 0111.
Result<UniqueFd> SealFirst(const char* name, const std::string& path) {
  ATOLL_ASSIGN(const std::string program, sys::ReadFileAt(AT_FDCWD, path, kMaxExecd));
  ATOLL_ASSIGN(UniqueFd memfd, sys::SealedMemfd(name, program, true));
  if (::fchmod(memfd.get(), 0111) != 0) return FailSys(std::string("fchmod ") + name);
  return memfd;
}

// A slot has no library, so only a program that names no loader starts there.
Status CheckStatic(int program, const std::string& path) {
  const Error refused(Code::kFailedPrecondition,
                      path +
                          " is no static program of this machine: use gVisor's own release of "
                          "runsc (secure_runtime.runsc)");
  Elf64_Ehdr file{};
  if (::pread(program, &file, sizeof file, 0) != sizeof file ||
      ::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != ELFCLASS64) {
    return Fail(refused);
  }
  for (unsigned i = 0; i < file.e_phnum; ++i) {
    Elf64_Phdr part{};
    const auto at = static_cast<off_t>(file.e_phoff + uint64_t{i} * sizeof part);
    if (::pread(program, &part, sizeof part, at) != sizeof part || part.p_type == PT_INTERP) {
      return Fail(refused);
    }
  }
  return {};
}

// Whoever could change the program would be root of every sandbox of the tier.
Status OpenGvisor(const Config& config, Host& host) {
  if (config.runsc.empty()) return {};
  ATOLL_ASSIGN(host.runsc, sys::Open(config.runsc, O_RDONLY));
  struct stat info {};
  if (::fstat(host.runsc.get(), &info) != 0) return FailSys("fstat " + config.runsc);
  ATOLL_TRY(CheckWriters(config.runsc, info, {0}));
  ATOLL_TRY(CheckStatic(host.runsc.get(), config.runsc));
  ATOLL_ASSIGN(host.guard, SealFirst("guard", config.guard));
  return {};
}

Status OpenVm(const Config& config, Host& host) {
  if (config.vm_dir.empty()) return {};
  ATOLL_ASSIGN(VmPrograms vm, OpenVmPrograms(config));
  ATOLL_ASSIGN(vm.guard, SealFirst("vm", config.vm_guard));
  LogLine(LogLevel::kInfo, "virtual machines serve isolation microvm, kata and firecracker")
      .Add("monitor", config.qemu)
      .Add("accel", vm.kvm ? "kvm" : "tcg");
  host.vm = std::move(vm);
  return {};
}

// Makes our directories in the run directory. The mounts on them are in this process's own mount
// namespace.
Status MakeRunDirectories(const std::string& run_dir) {
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, run_dir, 0755));
  for (const char* name : {"/spawner", "/spawner/records", "/spawner/ends", "/spawner/staging"}) {
    ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, run_dir + name, 0700));
  }
  return {};
}

// Executes the program again: same pid, same children. The records hold the state of the sandboxes;
// prepared slots are made anew. Returns only with an error.
Status Upgrade(const Config& config, const Instance& instance) {
  std::vector<char*> argv = {const_cast<char*>(config.program.c_str())};
  for (const std::string& argument : config.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  NotifySystemd(ReloadingState());
  ATOLL_TRY(HandOver(instance));
  LogLine(LogLevel::kInfo, "executing the new program").Add("path", config.program);
  ::execv(config.program.c_str(), argv.data());
  return FailSys("execv " + config.program);
}

// Each sandbox has a limit of pseudo-terminals (slot_mounts.cc). But all sandboxes and the host
// take theirs from one number of the kernel's, 4,096 by default, which 48 sandboxes would exhaust.
// Raising it costs only memory, which is charged to the sandbox of the terminal.
void RaiseTerminals() {
  constexpr uint64_t kEnough = uint64_t{kMaxSlot} * kMaxInstances *
                               (kMaxTerminals + wire::kMaxSessions * kMaxSessionTerminals);
  constexpr const char* kFile = "/proc/sys/kernel/pty/max";
  const auto text = sys::ReadFileAt(AT_FDCWD, kFile, 64);
  const auto now = text ? cgroup::LeadingNumber(*text) : std::nullopt;
  if (now && *now >= kEnough) return;
  // Never lowers a number that it cannot read.
  const Status raised = now ? sys::WriteFileAt(AT_FDCWD, kFile, std::to_string(kEnough))
                            : Fail(Code::kInternal, std::string(kFile) + " has no number");
  if (raised) return;
  LogLine(LogLevel::kWarning, "sandboxes share few pseudo-terminals; raise kernel.pty.max")
      .Add(raised.error());
}

Status EnterOwnMountNamespace() {
  if (::unshare(CLONE_NEWNS) != 0) return FailSys("unshare CLONE_NEWNS");
  // No mount from here on propagates to the host, and no later mount of the host to us.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailSys("mount / private");
  }
  return {};
}

// Checks the allowed directories in a process beside this one, because one may lie on a file system
// whose server does not answer. That directory is judged when a request names it.
Status CheckHostPathsInTime(const Config& config) {
  constexpr int kPatienceMs = 5000;
  if (config.host_paths.empty()) return {};
  ATOLL_ASSIGN(sys::Pipe told, sys::MakePipe());
  const int report = told.write.get();
  ATOLL_ASSIGN(const pid_t pid, StartWorker({.name = "atoll-volume"}, {report}, [&] {
                 const Status right = CheckHostPaths(config);
                 const std::string why = right ? "" : right.error().message();
                 [[maybe_unused]] const Status written = sys::WriteAll(report, "+" + why);
               }));
  told.write.reset();
  pollfd answer{told.read.get(), POLLIN, 0};
  if (TEMP_FAILURE_RETRY(::poll(&answer, 1, kPatienceMs)) <= 0) {
    ::kill(pid, SIGKILL);
    LogLine(LogLevel::kWarning,
            "a directory that is allowed for volumes does not answer; it is looked at when a "
            "sandbox asks for it");
    return {};
  }
  ATOLL_ASSIGN(const std::string text, sys::ReadAll(told.read.get(), 64 << 10));
  [[maybe_unused]] const bool ended = AwaitEnd(pid, kPatienceMs);
  if (text.empty()) return Fail(Code::kInternal, "atoll-volume, which looks at --host-path, died");
  if (text == "+") return {};
  return Fail(Code::kInvalidArgument, text.substr(1));
}

// Closes everything that it has opened when it returns.
Result<Server::End> ServeStore(const Config& config, const cgroup::Host& cgroups,
                               const std::string& base, uint32_t instance, int host_mounts) {
  ATOLL_TRY(MakeRunDirectories(config.run_dir));
  ATOLL_TRY(CheckHostPathsInTime(config));
  // Mounts on the host's side, because the store outlives this process, as sandboxes do.
  ATOLL_TRY(MountStore(config.data_dir));
  ATOLL_ASSIGN(Store store, Store::Open(config.data_dir));
  ATOLL_ASSIGN(cgroup::Tree tree, cgroup::Tree::Create(cgroups, base, GroupName(instance),
                                                       cgroup::DiskOf(store.path())));
  // The janitor needs only the store. Start it before anything else is opened.
  ATOLL_ASSIGN(Janitor janitor, Janitor::Start(store.root()));
  ATOLL_TRY(EnterOwnMountNamespace());
  // Opens the store again, so that the descriptor's mount belongs to this namespace and can be
  // cloned.
  ATOLL_ASSIGN(store, Store::Open(config.data_dir));

  Host host{.config = config,
            .instance = instance,
            .cgroups = std::move(tree),
            .store = std::move(store),
            .execd = {},
            .unpack = {},
            .guard = {},
            .runsc = {},
            .vm = {},
            .host_mounts = host_mounts,
            .filter = BuildSandboxFilter(),
            .session_filter = BuildSessionFilter(),
            .staging = config.run_dir + "/spawner/staging"};
  ATOLL_TRY(MakeUnpackGroup(host));
  ATOLL_ASSIGN(host.execd, SealFirst("execd", config.execd));
  ATOLL_TRY(OpenGvisor(config, host));
  ATOLL_TRY(OpenVm(config, host));
  ATOLL_ASSIGN(host.unpack, sys::Open(config.unpack, O_PATH));
  ATOLL_ASSIGN(UniqueFd records,
               sys::Open(config.run_dir + "/spawner/records", O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(UniqueFd ends, sys::Open(config.run_dir + "/spawner/ends", O_RDONLY | O_DIRECTORY));
  if (auto links = MountLinks()) {
    host.links = std::move(*links);
  } else {
    LogLine(LogLevel::kWarning,
            "cannot read the bytes of links: their last ten seconds are not billed")
        .Add(links.error());
  }
  ATOLL_ASSIGN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  Server server(host, *loop, std::move(janitor), std::move(records), std::move(ends));
  ATOLL_TRY(server.Start());
  LogLine(LogLevel::kInfo, "ready")
      .Add("instance", instance)
      .Add("cgroups", cgroups.v2 ? "v2" : "hybrid")
      .Add("disk_limits", host.store.HasQuota() ? "yes" : "no");
  NotifySystemd("READY=1");
  if (config.ready_fd >= 0) {
    ATOLL_TRY(sys::WriteAll(config.ready_fd, "+"));
    ::close(config.ready_fd);
  }
  return server.Run();
}

// Removes what this spawner and earlier ones have made on the host. While a sandbox exists, or a
// record of how it ended, everything stays: neither can be removed.
Status LeaveHost(const Config& config, const cgroup::Host& cgroups, const std::string& base,
                 const Instance& instance) {
  const std::string records = config.run_dir + "/spawner/records";
  if (::rmdir(records.c_str()) != 0 && errno != ENOENT) return FailSys("rmdir " + records);
  const std::string group = GroupName(instance.number);
  ATOLL_ASSIGN(const cgroup::Tree tree, cgroup::Tree::Create(cgroups, base, group, ""));
  ATOLL_TRY(RemoveUnpackGroup(tree));
  ATOLL_TRY(cgroup::Tree::Remove(cgroups, base, group));
  ATOLL_ASSIGN(const UniqueFd run, sys::Open(config.run_dir, O_RDONLY | O_DIRECTORY));
  for (const char* name : {"spawner.sock", "daemon.json"}) {
    if (::unlinkat(run.get(), name, 0) != 0 && errno != ENOENT) {
      return FailSys(std::string("unlink ") + name);
    }
  }
  ATOLL_TRY(sys::RemoveTree(run.get(), "spawner"));
  // The number is free for another daemon.
  if (::ftruncate(instance.lock.get(), 0) != 0) return FailSys("ftruncate instance");
  return UnmountStore(config.data_dir);
}

// Returns the exit status.
int Serve(const Config& config) {
  const auto failed = [](const Error& error) {
    LogLine(LogLevel::kError, "cannot serve").Add(error);
    return 1;
  };
  if (config.swap_bytes != 0) {
    const auto swap = AvailableSwap(config.swap_kind);
    if (!swap) return failed(swap.error());
  }
  RaiseTerminals();
  const auto cgroups = cgroup::DetectHost();
  if (!cgroups) return failed(cgroups.error());
  const auto base = cgroup::FindBase(*cgroups, config.cgroup);
  if (!base) return failed(base.error());
  const auto host_mounts = sys::Open("/proc/self/ns/mnt", O_RDONLY);
  if (!host_mounts) return failed(host_mounts.error());
  const auto instance = ClaimInstance(config.run_dir, *base, config.successor);
  if (!instance) {
    // While this successor waited, a daemon has started another spawner, which may have ended
    // since.
    if (instance.error().code() == Code::kNotFound) return kServedByAnother;
    const int status = failed(instance.error());
    return instance.error().code() == Code::kAlreadyExists ? kServedByAnother : status;
  }
  auto end = ServeStore(config, *cgroups, *base, instance->number, host_mounts->get());
  if (const Status outside = ToHostMounts(host_mounts->get()); !outside) {
    return failed(outside.error());
  }
  if (end && *end == Server::End::kUpgrade) return failed(Upgrade(config, *instance).error());
  // A start that failed for the first time takes back what it made. Otherwise a running daemon, or
  // the next try, keeps what it had.
  if (end ? *end == Server::End::kStopped : instance->anew) {
    const Status left = LeaveHost(config, *cgroups, *base, *instance);
    if (!left) LogLine(LogLevel::kWarning, "cannot clean up the host").Add(left.error());
  }
  return end ? 0 : failed(end.error());
}

}  // namespace
}  // namespace atl::spawner

int main(int argc, char** argv) {
  using namespace atl;
  OpenStandardStreams();
  InitLog("atoll-spawner", LogLevel::kInfo);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(022);
  // The spawner hands on keys of buckets and of the swap area.
  if (const Status safe = ForbidCoreDumps(); !safe) {
    LogLine(LogLevel::kError, "cannot start").Add(safe.error());
    return 1;
  }
  if (argc == 2 && std::string_view(argv[1]) == "hold") {
    const Status held = spawner::HoldCgroup();
    LogLine(LogLevel::kError, "cannot hold the cgroup").Add(held.error());
    return 1;
  }
  const auto config = spawner::ParseCommandLine(argc, argv);
  if (!config) {
    LogLine(LogLevel::kError, "bad command line").Add(config.error());
    return 2;
  }
  if (::geteuid() != 0) {
    LogLine(LogLevel::kError, "must be started as root");
    return 2;
  }
  if (config->trial) {
    const Status passed = spawner::Try(*config);
    if (!passed) LogLine(LogLevel::kError, "cannot take over").Add(passed.error());
    return passed ? 0 : 1;
  }
  return spawner::Serve(*config);
}
