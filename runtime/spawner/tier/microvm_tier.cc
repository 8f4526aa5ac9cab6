#include "runtime/spawner/tier/microvm_tier.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

#include "runtime/base/log.h"
#include "runtime/base/move_descriptors.h"
#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/root/root_child.h"
#include "runtime/spawner/root/root_steps.h"
#include "runtime/spawner/root/volume_mounts.h"
#include "runtime/spawner/slot/execd_process.h"
#include "runtime/spawner/slot/slot_child.h"
#include "runtime/spawner/slot/slot_mounts.h"
#include "runtime/spawner/tier/guarded_slot.h"
#include "runtime/wire/guard.h"
#include "runtime/wire/machine.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

using wire::Step;

// Memory and processors of a machine whose request limits neither.
constexpr uint64_t kUsualMemory = 512 << 20;
constexpr uint32_t kUsualProcessors = 1;
constexpr uint32_t kMostProcessors = 64;
// A guest that has not written what is dirty by then is not frozen. Shorter than the patience of
// who waits for the freezer.
constexpr int kSyncMs = 8000;
constexpr int kKillMs = 1000;

std::string InMachine(const char* path) {
  return std::string(wire::kMachineRoot) + path;
}

std::string RootInMachine() {
  return InMachine(wire::kMachineSharedRoot) + "/" + wire::kRootDirectory;
}

std::string SessionsInMachine() {
  return InMachine(wire::kMachineSharedRoot) + "/" + wire::kSessionsDirectory;
}

uint32_t Processors(uint64_t cpu_millis) {
  if (cpu_millis == 0) return kUsualProcessors;
  return static_cast<uint32_t>(std::min<uint64_t>((cpu_millis + 999) / 1000, kMostProcessors));
}

wire::Hardware HardwareOf(const Host& host, const cgroup::Limits& limits) {
  return {.memory_bytes = limits.memory_bytes == 0 ? kUsualMemory : limits.memory_bytes,
          .processors = Processors(limits.cpu_millis),
          .kvm = host.vm->kvm,
          .qemu = host.config.qemu,
          .virtiofsd = host.config.virtiofsd};
}

Status WriteForGuard(const char* path, const std::string& text) {
  ATOLL_ASSIGN(const UniqueFd file,
               sys::Open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  return sys::WriteAll(file.get(), text);
}

Status MountAt(const UniqueFd& mount, const std::string& path) {
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(path, O_PATH | O_NOFOLLOW));
  return Attach(mount.get(), target.get(), path.c_str());
}

// Makes the root of the processes of the machine.
Status MakeMachineRoot(const UniqueFd& usr, const UniqueFd& kernel, const UniqueFd& initrd,
                       bool kvm) {
  for (const char* path : {"", "/usr", "/dev", "/proc", "/vm", "/share"}) {
    ATOLL_TRY(MakeDirectory(InMachine(path).c_str(), 0755));
  }
  // The machine's monitor is another user of the slot, and has no way into the shares.
  if (::chmod(InMachine("/share").c_str(), 0700) != 0) return FailSys("chmod share");
  for (const char* path : {wire::kMachineSharedRoot, wire::kMachineSharedVolumes}) {
    ATOLL_TRY(MakeDirectory(InMachine(path).c_str(), 0755));
  }
  for (const std::string& path : {RootInMachine(), SessionsInMachine()}) {
    ATOLL_TRY(MakeDirectory(path.c_str(), 0755));
  }
  for (const char* name : {"bin", "lib", "lib64"}) {
    const std::string to = std::string("usr/") + name;
    if (::symlink(to.c_str(), InMachine(("/" + std::string(name)).c_str()).c_str()) != 0) {
      return FailSys("symlink " + to);
    }
  }
  for (const char* path : {wire::kMachineKernel, wire::kMachineInitrd}) {
    ATOLL_TRY(sys::Open(InMachine(path), O_WRONLY | O_CREAT | O_EXCL, 0444));
  }
  ATOLL_TRY(MountAt(usr, InMachine("/usr")));
  ATOLL_TRY(MountAt(kernel, InMachine(wire::kMachineKernel)));
  ATOLL_TRY(MountAt(initrd, InMachine(wire::kMachineInitrd)));
  ATOLL_ASSIGN(const UniqueFd dev,
               NewMount("tmpfs", {{"mode", "0755"}, {"size", "4k"}, {"nr_inodes", "8"}},
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  ATOLL_TRY(MountAt(dev, InMachine("/dev")));
  struct Node {
    const char* name;
    unsigned major_number, minor_number;
  };
  constexpr Node kNodes[] = {{"null", 1, 3}, {"urandom", 1, 9}, {"kvm", 10, 232}};
  for (const Node& node : kNodes) {
    if (!kvm && node.minor_number == 232) continue;
    if (::mknodat(dev.get(), node.name, S_IFCHR | 0666,
                  makedev(node.major_number, node.minor_number)) != 0) {
      return FailSys(std::string("mknod ") + node.name);
    }
  }
  return {};
}

Result<UniqueFd> CloneReadOnly(const std::string& path) {
  ATOLL_ASSIGN(UniqueFd mount, CloneMount(AT_FDCWD, path.c_str(), false));
  ATOLL_TRY(SetMountAttributes(mount.get(), kNoSuidDev | MOUNT_ATTR_RDONLY, -1, false, MS_PRIVATE));
  return mount;
}

// Beside the upper directory, with which it is removed. By descriptor, because the path of a data
// directory may be longer than the address of a socket.
std::string SyncDirectory(const Host& host, uint32_t slot) {
  return host.store.path() + "/fs/uppers/" + SlotGroup(slot);
}
constexpr const char kSyncSocket[] = "/sync";

Result<UniqueFd> ListenForSync(const Host& host, uint32_t slot) {
  ATOLL_ASSIGN(const UniqueFd directory,
               sys::Open(SyncDirectory(host, slot), O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(sys::FdPath(directory.get()) + kSyncSocket));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return FailSys("socket AF_UNIX");
  ::unlinkat(directory.get(), kSyncSocket + 1, 0);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("bind the socket for syncs");
  }
  if (::listen(socket.get(), 4) != 0) return FailSys("listen");
  return socket;
}

// Blocks until the guest has written everything, or cannot.
Status SyncGuest(const Host& host, uint32_t slot) {
  ATOLL_ASSIGN(const UniqueFd directory,
               sys::Open(SyncDirectory(host, slot), O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(sys::FdPath(directory.get()) + kSyncSocket));
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return FailSys("socket AF_UNIX");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect to the guard");
  }
  pollfd answer{socket.get(), POLLIN, 0};
  char byte = 0;
  if (TEMP_FAILURE_RETRY(::poll(&answer, 1, kSyncMs)) != 1 ||
      ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) != 1 || byte != wire::kSynced) {
    return Fail(Code::kUnavailable, "the guest has not written what is dirty");
  }
  return {};
}

Status MountTreeOfVm(SlotState& state) {
  const Host& host = *state.input.host;
  ATOLL_ASSIGN(state.sync, ListenForSync(host, state.input.slot));
  // First, because MountTree leaves the paths of the host. The device belongs to the network
  // namespace that it is opened in.
  ATOLL_ASSIGN(state.tun, sys::Open("/dev/net/tun", O_RDWR | O_NONBLOCK));
  ATOLL_ASSIGN(const UniqueFd usr, CloneReadOnly("/usr"));
  ATOLL_ASSIGN(const UniqueFd kernel, CloneReadOnly(host.config.vm_dir + kVmKernel));
  ATOLL_ASSIGN(const UniqueFd initrd, CloneReadOnly(host.vm->initramfs));
  ATOLL_TRY(MountTree(state));
  ATOLL_TRY(MountGuardDirectory());
  if (state.input.ahead) {
    ATOLL_TRY(
        WriteForGuard(wire::kParkedFile, wire::EncodeFields(HardwareOf(host, state.input.limits))));
  }
  return MakeMachineRoot(usr, kernel, initrd, host.vm->kvm);
}

Status MountProcOfMachine(SlotState&) {
  ATOLL_ASSIGN(const UniqueFd proc, NewMount("proc", {}, kNoSuidDevExec));
  return MountAt(proc, InMachine("/proc"));
}

Status EnterUserOfVm(SlotState& state) {
  ATOLL_ASSIGN(state.score, EnterUserNamespace(state.input.user_namespace, state.input.pass,
                                               state.sysctls.get(), kAllCapabilities, 0));
  return {};
}

constexpr SlotStep kVmSteps[] = {
    {Step::kNamespaces, FurnishNamespaces}, {Step::kTree, MountTreeOfVm},
    {Step::kProc, MountProcOfSlot},         {Step::kMask, MountProcOfMachine},
    {Step::kRlimits, SetProcessLimits},     {Step::kUser, EnterUserOfVm},
};

Result<int> PlaceForVm(const SlotState& state) {
  const SlotChildInput& input = state.input;
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return FailSys("open /dev/null");
  DescriptorMove moves[] = {
      {input.host->vm->guard.get(), kKeptAbove},
      {null.get(), 0},
      {null.get(), 1},
      {null.get(), 2},
      {input.gate, wire::kExecdGateFd},
      {input.control, wire::kExecdControlFd},
      {input.listener, wire::kExecdListenFd},
      {state.tun.get(), wire::kMachineTunFd},
      {state.sync.get(), wire::kMachineSyncFd},
  };
  ATOLL_TRY(MoveDescriptors(moves));
  return moves[0].from;
}

const SlotProgram kVmProgram{kVmSteps, PlaceForVm, "atoll-vm", nullptr};

// Mounts the root, and shows the file server where isolated sessions keep what they write: beside
// the upper directory, so that the sandbox's disk limit holds and no snapshot has it.
Status MountOverlayAndUppers(RootState& state) {
  ATOLL_TRY(MountOverlay(state));
  const std::string path = "/store/uppers/" + SlotGroup(state.plan->slot) + "/sessions";
  ATOLL_TRY(MakeDirectory(path.c_str(), 0700));
  ATOLL_ASSIGN(const UniqueFd mount, CloneMount(AT_FDCWD, path.c_str(), false));
  return MountAt(mount, SessionsInMachine());
}

// Shows the file servers the root, and each volume by its number: the guest keeps nothing of a
// volume in its memory that another sandbox may change.
Status ShareTrees(RootState& state) {
  const std::vector<wire::Volume>& volumes = state.plan->volumes;
  for (size_t i = 0; i < volumes.size(); ++i) {
    const std::string& target = volumes[i].target;
    ATOLL_ASSIGN(const UniqueFd at, sys::OpenInRoot(state.root.get(), target.substr(1), O_PATH));
    ATOLL_ASSIGN(const UniqueFd mount, CloneMount(at.get(), "", false));
    const std::string path = InMachine(wire::kMachineSharedVolumes) + "/" + std::to_string(i);
    struct stat facts {};
    if (::fstat(at.get(), &facts) != 0) return FailSys("fstat " + target);
    if (S_ISDIR(facts.st_mode)) {
      ATOLL_TRY(MakeDirectory(path.c_str(), 0755));
    } else {
      ATOLL_TRY(sys::Open(path, O_WRONLY | O_CREAT | O_EXCL, 0444));
    }
    ATOLL_TRY(MountAt(mount, path));
  }
  ATOLL_ASSIGN(const UniqueFd root, CloneMount(state.root.get(), "", false));
  return MountAt(root, RootInMachine());
}

wire::Machine MachineOf(const Host& host, const wire::Plan& plan) {
  const cgroup::Limits& limits = plan.limits;
  wire::Machine machine{.hardware = HardwareOf(host, limits), .go = {}};
  wire::vm::Go& go = machine.go;
  go.hostname = plan.hostname;
  go.root = {.tag = wire::kRootTag,
             .directory = wire::kRootDirectory,
             .target = "/",
             .read_only = plan.readonly_root};
  go.sessions = wire::kSessionsDirectory;
  for (size_t i = 0; i < plan.volumes.size(); ++i) {
    go.shares.push_back({.tag = wire::kVolumesTag,
                         .directory = std::to_string(i),
                         .target = plan.volumes[i].target,
                         .read_only = plan.volumes[i].read_only});
  }
  go.nofile = limits.nofile == 0 ? kUsualFiles : limits.nofile;
  go.pids = limits.pids;
  go.shm_bytes = limits.shm_bytes;
  go.capabilities = host.config.capabilities;
  return machine;
}

Status FinishMachine(RootState& state) {
  ATOLL_TRY(ShareTrees(state));
  return WriteForGuard(wire::kMachineFile, wire::EncodeFields(MachineOf(*state.host, *state.plan)));
}

constexpr RootStep kRootOfMachine[] = {
    {Step::kEnter, EnterSlot},
    {Step::kEtc, WriteEtc},
    {Step::kOverlay, MountOverlayAndUppers},
    {Step::kMounts, CoverStore},
    {Step::kVolumes, MountVolumes},
    {Step::kCover, FinishMachine},
};

}  // namespace

MicrovmTier::MicrovmTier(const Host& host)
    : GuardedTier(host, wire::kMicrovmTier, kVmProgram, kRootOfMachine) {}

bool MicrovmTier::HasWall() const {
  return host_.vm.has_value();
}

RootReport MicrovmTier::Build(const wire::Plan& plan, const std::vector<int>& buckets,
                              const Slot& slot, int first) const {
  const uint64_t least = wire::LeastMemoryOf(wire::kMicrovmTier);
  if (plan.limits.memory_bytes != 0 && plan.limits.memory_bytes < least) {
    RootReport refused;
    refused.step = Step::kLimits;
    refused.status = Fail(Code::kInvalidArgument,
                          "microvm: less than " + std::to_string(least >> 20) + " MiB of memory");
    return refused;
  }
  return GuardedTier::Build(plan, buckets, slot, first);
}

void MicrovmTier::EndSync(uint32_t slot) {
  const auto sync = syncs_.extract(slot);
  if (sync.empty()) return;
  (void)sys::PidfdSignal(sync.mapped().get(), SIGKILL);
  pollfd ended{sync.mapped().get(), POLLIN, 0};
  (void)::poll(&ended, 1, kKillMs);
}

Status MicrovmTier::Freeze(uint32_t slot, bool frozen) {
  const std::string group = SlotGroup(slot);
  // It would freeze the sandbox later.
  EndSync(slot);
  ATOLL_ASSIGN(const bool asked, host_.cgroups.FreezeAsked(group));
  if (!frozen || asked) return host_.cgroups.Freeze(group, frozen);
  ATOLL_ASSIGN(const pid_t pid, StartWorker({.name = "atoll-vm-sync"}, host_.Descriptors(), [&] {
                 const Status synced = SyncGuest(host_, slot);
                 const Status done = synced ? host_.cgroups.Freeze(group, true) : synced;
                 if (!done) {
                   LogLine(LogLevel::kWarning, "a virtual machine cannot be frozen")
                       .Add("slot", slot)
                       .Add(done.error());
                 }
               }));
  ATOLL_ASSIGN(syncs_[slot], sys::PidfdOpen(pid));
  return {};
}

}  // namespace atl::spawner
