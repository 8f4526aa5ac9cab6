// atoll-spawner: the only process of Atoll that is root. See README.md in this folder.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "cgroup/host.h"
#include "runtime/base/log.h"
#include "runtime/base/notify.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/cgroup_holder.h"
#include "runtime/spawner/config.h"
#include "runtime/spawner/device_template.h"
#include "runtime/spawner/host.h"
#include "runtime/spawner/instance.h"
#include "runtime/spawner/own_paths.h"
#include "runtime/spawner/server.h"
#include "runtime/spawner/store_image.h"

namespace atl::spawner {
namespace {

constexpr size_t kMaxExecd = 16 << 20;

// A copy in memory that nobody can write and, being mode 0111 and root's, no sandbox can read.
Result<UniqueFd> SealExecd(const std::string& path) {
  ATOLL_ASSIGN(const std::string program, sys::ReadFileAt(AT_FDCWD, path, kMaxExecd));
  ATOLL_ASSIGN(UniqueFd memfd, sys::SealedMemfd("execd", program, true));
  if (::fchmod(memfd.get(), 0111) != 0) return FailSys("fchmod execd");
  return memfd;
}

// Directories of ours in the run directory. The mounts on them are in this process's own mount
// namespace.
Status MakeRunDirectories(const std::string& run_dir) {
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, run_dir, 0755));
  for (const char* name : {"/spawner", "/spawner/records", "/spawner/dev", "/spawner/staging"}) {
    ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, run_dir + name, 0700));
  }
  return {};
}

// Back to the host's mounts, and once more from the start: same pid, same children. What is to be
// known about sandboxes stands in their records; prepared slots are made anew.
Status Upgrade(const Config& config, const Instance& instance, int host_mounts, char** argv) {
  if (::setns(host_mounts, CLONE_NEWNS) != 0) return FailSys("setns mount");
  std::vector<char*> arguments;
  for (char** argument = argv; *argument; ++argument) {
    // Nobody waits at the other end any more.
    if (std::string_view(*argument) == "--ready-fd" && argument[1]) {
      ++argument;
    } else {
      arguments.push_back(*argument);
    }
  }
  arguments.push_back(nullptr);
  NotifySystemd(ReloadingState());
  ATOLL_TRY(HandOver(instance));
  LogLine(LogLevel::kInfo, "executing the new program").Add("path", config.program);
  ::execv(config.program.c_str(), arguments.data());
  return FailSys("execv " + config.program);
}

Status EnterOwnMountNamespace() {
  if (::unshare(CLONE_NEWNS) != 0) return FailSys("unshare CLONE_NEWNS");
  // Nothing mounted from here on propagates to the host, and the host's later mounts not to us.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailSys("mount / private");
  }
  return {};
}

// Everything that it has open is closed when it returns.
Result<Server::End> ServeStore(const Config& config, const cgroup::Host& cgroups,
                               const std::string& base, uint32_t instance, int host_mounts) {
  ATOLL_ASSIGN(Store store, Store::Open(config.data_dir));
  ATOLL_ASSIGN(cgroup::Tree tree, cgroup::Tree::Create(cgroups, base, GroupName(instance),
                                                       cgroup::DiskOf(store.path())));
  // The janitor needs the store only, and none of what is opened below.
  ATOLL_ASSIGN(Janitor janitor, Janitor::Start(store.root()));
  ATOLL_TRY(EnterOwnMountNamespace());
  // Opened again, so that the descriptor's mount is one of this namespace and can be cloned.
  ATOLL_ASSIGN(store, Store::Open(config.data_dir));

  Host host{.config = config,
            .instance = instance,
            .cgroups = std::move(tree),
            .store = std::move(store),
            .devices = config.run_dir + "/spawner/dev",
            .execd = {},
            .unpack = {},
            .host_mounts = host_mounts,
            .filter = BuildSandboxFilter(),
            .staging = config.run_dir + "/spawner/staging"};
  ATOLL_TRY(MakeDeviceTemplate(host.devices.c_str()));
  ATOLL_ASSIGN(host.execd, SealExecd(config.execd));
  ATOLL_ASSIGN(host.unpack, sys::Open(config.unpack, O_PATH));
  ATOLL_ASSIGN(UniqueFd records,
               sys::Open(config.run_dir + "/spawner/records", O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(Poller poller, Poller::Create());
  Server server(host, poller, std::move(janitor), std::move(records));
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

Status Serve(const Config& config, char** argv) {
  ATOLL_TRY(MakeRunDirectories(config.run_dir));
  ATOLL_TRY(CheckHostPaths(config));
  ATOLL_ASSIGN(const cgroup::Host cgroups, cgroup::DetectHost());
  ATOLL_ASSIGN(const std::string base, cgroup::FindBase(cgroups, config.cgroup));
  ATOLL_ASSIGN(const Instance instance, ClaimInstance(config.run_dir, base));
  // On the host's side: it outlives this process, as sandboxes do.
  ATOLL_TRY(MountStore(config.data_dir));
  ATOLL_ASSIGN(const UniqueFd host_mounts, sys::Open("/proc/self/ns/mnt", O_RDONLY));
  ATOLL_ASSIGN(const Server::End end,
               ServeStore(config, cgroups, base, instance.number, host_mounts.get()));
  if (end == Server::End::kUpgrade) return Upgrade(config, instance, host_mounts.get(), argv);
  if (::setns(host_mounts.get(), CLONE_NEWNS) != 0) return FailSys("setns mount");
  if (const Status unmounted = UnmountStore(config.data_dir); !unmounted) {
    LogLine(LogLevel::kWarning, "the store is left mounted").Add(unmounted.error());
  }
  // Stopped for good: the number is free for another daemon.
  if (::ftruncate(instance.lock.get(), 0) != 0) return FailSys("ftruncate instance");
  return {};
}

}  // namespace
}  // namespace atl::spawner

int main(int argc, char** argv) {
  using namespace atl;
  InitLog("atoll-spawner", LogLevel::kInfo);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(022);
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
  const Status served = spawner::Serve(*config, argv);
  if (!served) {
    LogLine(LogLevel::kError, "cannot serve").Add(served.error());
    return 1;
  }
  return 0;
}
