#include "bench/floor.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "bench/clock.h"
#include "bench/netns.h"
#include "bench/own_thread.h"
#include "bench/process.h"
#include "cgroup/tree.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/network.h"
#include "netpolicy/rules/nft.h"
#include "netpolicy/rules/ruleset.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "runtime/spawner/kernel/vfork_clone.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/spawner/rules/seccomp.h"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kInstance = 7;
constexpr uid_t kInside = 0x78000000;
constexpr uint64_t kNoExec = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
constexpr uint64_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
// The usual capabilities of containers: chown, dac_override, fowner, fsetid, kill, setgid, setuid,
// setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap.
constexpr uint64_t kCapabilities = 0xa80425fb;

cgroup::Limits DefaultLimits() {
  cgroup::Limits limits = cgroup::DefaultLimits();
  limits.disk_bytes = 0;  // a limit needs a store with quotas
  return limits;
}

// The parent's data for the child. The child shares its parent's memory until it executes.
struct Child {
  std::string top, options;
  UniqueFd netns, map, users, out;
  std::vector<UniqueFd> tasks;
  const spawner::BpfProgram* filter = nullptr;
  std::string error;
};

Status Mount(int root, const char* at, const char* type, const spawner::MountOptions& options) {
  ATOLL_ASSIGN(const UniqueFd target, sys::OpenBeneath(root, at, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd mount, spawner::NewMount(type, options, kNoExec));
  return spawner::Attach(mount.get(), target.get(), at);
}

Status MountRoot(const Child& child) {
  ATOLL_ASSIGN(const UniqueFd store,
               spawner::CloneMount(AT_FDCWD, (child.top + "/store").c_str(), false));
  ATOLL_TRY(spawner::SetMountAttributes(store.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                                        child.map.get(), false));
  // The mount is attached, because Linux 6.1 has no overlay over detached mounts.
  const std::string mapped = child.top + "/mapped", root_path = child.top + "/root";
  ATOLL_ASSIGN(const UniqueFd point, sys::Open(mapped, O_PATH | O_DIRECTORY));
  ATOLL_TRY(spawner::Attach(store.get(), point.get(), "store"));
  if (::chdir(mapped.c_str()) != 0) return FailSys("chdir " + mapped);
  // Only a user whom the map contains can write to an upper on an id-mapped mount.
  ::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP);
  ::setfsuid(kInside);
  ::setfsgid(kInside);
  const int mounted =
      ::mount("overlay", root_path.c_str(), "overlay", MS_NOSUID | MS_NODEV, child.options.c_str());
  const int error = errno;
  ::setfsuid(0);
  ::setfsgid(0);
  if (mounted != 0) return Fail(SysError("mount overlay " + child.options, error));
  ATOLL_ASSIGN(const UniqueFd root, sys::Open(root_path, O_PATH | O_DIRECTORY));
  ATOLL_TRY(Mount(root.get(), "proc", "proc", {}));
  ATOLL_TRY(Mount(root.get(), "sys", "sysfs", {}));
  ATOLL_ASSIGN(const UniqueFd devices,
               spawner::CloneMount(AT_FDCWD, (child.top + "/dev").c_str(), false));
  ATOLL_ASSIGN(const UniqueFd dev, sys::OpenBeneath(root.get(), "dev", O_PATH | O_DIRECTORY));
  ATOLL_TRY(spawner::Attach(devices.get(), dev.get(), "dev"));
  ATOLL_TRY(Mount(devices.get(), "pts", "devpts", {{"newinstance", ""}, {"ptmxmode", "0666"}}));
  ATOLL_TRY(Mount(devices.get(), "shm", "tmpfs", {{"mode", "1777"}, {"size", "67108864"}}));
  ATOLL_TRY(Mount(devices.get(), "mqueue", "mqueue", {}));
  if (::fchdir(root.get()) != 0 || ::chdir(root_path.c_str()) != 0 ||
      ::syscall(SYS_pivot_root, ".", ".") != 0 || ::umount2(".", MNT_DETACH) != 0) {
    return FailSys("pivot_root " + root_path);
  }
  return {};
}

// Calls the kernel directly, because the C library would change every thread of the process.
Status DropPrivileges(const Child& child) {
  if (::sethostname("floor", 5) != 0) return FailSys("sethostname");
  if (::setns(child.users.get(), CLONE_NEWUSER) != 0) return FailSys("setns user");
  if (::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, 0, 0, 0) != 0 ||
      ::syscall(SYS_setresuid, 0, 0, 0) != 0) {
    return FailSys("setresuid");
  }
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    if ((kCapabilities >> capability & 1) == 0) ::prctl(PR_CAPBSET_DROP, capability);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const auto low = static_cast<uint32_t>(kCapabilities);
  const __user_cap_data_struct sets[2] = {{low, low, 0}, {0, 0, 0}};
  if (::syscall(SYS_capset, &header, sets) != 0) return FailSys("capset");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailSys("PR_SET_NO_NEW_PRIVS");
  return spawner::LoadFilter(*child.filter);
}

Status Enter(const Child& child) {
  for (const UniqueFd& tasks : child.tasks) ATOLL_TRY(sys::WriteAll(tasks.get(), "0"));
  ATOLL_TRY(EnterNetns(child.netns));
  ATOLL_TRY(MountRoot(child));
  if (::dup2(child.out.get(), STDOUT_FILENO) < 0) return FailSys("dup2");
  return DropPrivileges(child);
}

void RunChild(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  const Status entered = Enter(child);
  if (!entered) {
    child.error = entered.error().message();
    ::_exit(1);
  }
  static char name[] = "sh", dash_c[] = "-c", echo[] = "echo hi";
  static char* argv[] = {name, dash_c, echo, nullptr};
  static char* envp[] = {nullptr};
  ::execve("/bin/sh", argv, envp);
  ::_exit(127);
}

class BareFloor final : public Floor {
 public:
  explicit BareFloor(const std::string& directory) : top_(directory) {}
  ~BareFloor() override {
    network_.reset();
    if (tree_) (void)cgroup::Tree::Remove(tree_->host(), tree_->host().unified, group_);
  }

  Status Begin() {
    return thread_.Do([this]() -> Status {
      if (!fs::exists(top_)) ATOLL_TRY(MakeStore());
      if (::unshare(CLONE_NEWNS) != 0 ||
          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        return FailSys("a mount namespace of its own");
      }
      ATOLL_TRY(MakeDevices());
      ATOLL_ASSIGN(host_net_, NewNetns());
      netpolicy::NetworkConfig config;
      config.instance = kInstance;
      ATOLL_ASSIGN(network_, netpolicy::Network::Open(config));
      ATOLL_ASSIGN(rules_, netpolicy::OpenNetlink(NETLINK_NETFILTER));
      ATOLL_ASSIGN(const cgroup::Host host, cgroup::DetectHost());
      group_ =
          "atoll-floor-" + std::to_string(::getpid()) + "-" + fs::path(top_).filename().string();
      ATOLL_ASSIGN(tree_, cgroup::Tree::Create(host, host.unified, group_, ""));
      return {};
    });
  }

  Result<FloorMicros> Live() override {
    FloorMicros micros;
    ATOLL_TRY(thread_.Do([&] { return LiveHere(&micros); }));
    return micros;
  }

 private:
  Status MakeDir(const std::string& path) const {
    std::error_code error;
    fs::create_directories(top_ + path, error);
    if (error) return Fail(SysError("mkdir " + top_ + path, error.value()));
    return Own(path);
  }
  Status Own(const std::string& path) const {
    if (::lchown((top_ + path).c_str(), spawner::kStoreIdBase, spawner::kStoreIdBase) == 0)
      return {};
    return FailSys("lchown " + top_ + path);
  }
  Status MakeStore() const {
    for (const char* path :
         {"", "/mapped", "/root", "/dev", "/store", "/store/layer", "/store/layer/bin",
          "/store/layer/proc", "/store/layer/sys", "/store/layer/dev"}) {
      ATOLL_TRY(MakeDir(path));
    }
    std::error_code error;
    fs::copy_file("/bin/busybox", top_ + "/store/layer/bin/busybox", error);
    if (!error) fs::create_symlink("busybox", top_ + "/store/layer/bin/sh", error);
    if (error) return Fail(SysError("copy /bin/busybox", error.value()));
    ATOLL_TRY(Own("/store/layer/bin/sh"));
    return Own("/store/layer/bin/busybox");
  }
  // The devices are created once. Each sandbox gets a copy of the mount.
  Status MakeDevices() const {
    const std::string dev = top_ + "/dev";
    if (::mount("none", dev.c_str(), "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755") != 0) {
      return FailSys("mount " + dev);
    }
    for (const char* name : {"/pts", "/shm", "/mqueue"})
      ATOLL_TRY(MakeDir("/dev" + std::string(name)));
    constexpr struct {
      const char* name;
      unsigned minor;
    } kNodes[] = {{"/null", 3}, {"/zero", 5}, {"/full", 7}, {"/random", 8}, {"/urandom", 9}};
    for (const auto& [name, minor] : kNodes) {
      if (::mknod((dev + name).c_str(), S_IFCHR | 0666, makedev(1, minor)) != 0) {
        return FailSys("mknod " + dev + name);
      }
    }
    return {};
  }

  Status MakeSlot(Child& child, const std::string& group) {
    if (::unshare(CLONE_NEWNET) != 0) return FailSys("unshare CLONE_NEWNET");
    ATOLL_ASSIGN(child.netns, OwnNetns());
    ATOLL_ASSIGN(const UniqueFd rtnetlink, netpolicy::OpenNetlink(NETLINK_ROUTE));
    ATOLL_TRY(EnterNetns(host_net_));
    ATOLL_TRY(network_->AttachSlot(slot_, rtnetlink.get()));
    ATOLL_TRY(tree_->CreateGroup(group));
    ATOLL_TRY(tree_->DelegateGroup(group, kInside));
    ATOLL_TRY(tree_->SetLimits(group, {}, DefaultLimits()));
    ATOLL_ASSIGN(child.tasks, tree_->OpenTasks(group));
    ATOLL_ASSIGN(child.map, spawner::MakeUserNamespace({spawner::kStoreIdBase, kInside}));
    ATOLL_ASSIGN(child.users, spawner::MakeUserNamespace({0, kInside}));
    return {};
  }

  Status LiveHere(FloorMicros* micros) {
    slot_ = slot_ % netpolicy::kMaxSlot + 1;
    const std::string number = std::to_string(slot_), group = "s" + number;
    Child child;
    child.top = top_;
    child.filter = &filter_;
    const int64_t start = NowMicros();
    Status status = MakeSlot(child, group);
    micros->slot = MicrosSince(start);
    if (status) status = RunInSlot(child, group, micros);
    // Removes everything that the sample made.
    netpolicy::NftTransaction remove(netpolicy::TableName(kInstance));
    netpolicy::DeleteSlotElements(remove, kInstance, slot_);
    const Status removed = remove.Commit(rules_.get());
    const Status gone = tree_->RemoveGroup(group);
    ATOLL_TRY(status);
    ATOLL_TRY(removed);
    ATOLL_TRY(gone);
    ATOLL_ASSIGN(const UniqueFd store, sys::Open(top_ + "/store", O_RDONLY | O_DIRECTORY));
    ATOLL_TRY(sys::RemoveTree(store.get(), "u" + number));
    return sys::RemoveTree(store.get(), "w" + number);
  }

  Status RunInSlot(Child& child, const std::string& group, FloorMicros* micros) {
    const int64_t start = NowMicros();
    const std::string number = group.substr(1);
    ATOLL_TRY(MakeDir("/store/u" + number));
    ATOLL_TRY(MakeDir("/store/w" + number));
    child.options = "userxattr,volatile,xino=off,index=off,lowerdir=layer,upperdir=u" + number +
                    ",workdir=w" + number;
    ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
    child.out = std::move(pipe.write);
    ATOLL_ASSIGN(const UniqueFd cgroup, tree_->OpenDir(group, "run"));
    ATOLL_ASSIGN(const pid_t pid, spawner::Vfork(kNamespaces, cgroup.get(), RunChild, &child));
    child.out.reset();
    char byte = 0;
    const ssize_t got = ::read(pipe.read.get(), &byte, 1);
    micros->first = MicrosSince(start);
    auto rest = sys::ReadAll(pipe.read.get(), 16);
    const Status ended = Await(pid, "the floor's shell");
    if (!child.error.empty()) return Fail(Code::kInternal, "floor: " + child.error);
    ATOLL_TRY(ended);
    if (got == 1 && byte == 'h' && rest && *rest == "i\n") return {};
    return Fail(Code::kInternal, "floor: the shell did not print hi");
  }

  const std::string top_;
  const spawner::BpfProgram filter_ = spawner::BuildSandboxFilter();
  std::string group_;
  std::optional<cgroup::Tree> tree_;
  std::unique_ptr<netpolicy::Network> network_;
  UniqueFd host_net_, rules_;
  uint32_t slot_ = 0;
  OwnThread thread_;
};

}  // namespace

Result<std::unique_ptr<Floor>> Floor::Open(const std::string& directory) {
  auto floor = std::make_unique<BareFloor>(directory);
  ATOLL_TRY(floor->Begin());
  return floor;
}

}  // namespace atl::bench
