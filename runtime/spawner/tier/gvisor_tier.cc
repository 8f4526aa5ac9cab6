#include "runtime/spawner/tier/gvisor_tier.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/move_descriptors.h"
#include "runtime/base/sys.h"
#include "runtime/base/utf8.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/root/root_steps.h"
#include "runtime/spawner/root/volume_mounts.h"
#include "runtime/spawner/rules/own_paths.h"
#include "runtime/spawner/slot/execd_process.h"
#include "runtime/spawner/slot/slot_child.h"
#include "runtime/spawner/slot/slot_mounts.h"
#include "runtime/spawner/tier/guarded_slot.h"
#include "runtime/spawner/tier/gvisor_spec.h"
#include "runtime/wire/guard.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

using wire::Step;

// Runsc takes the volumes from here. No other sandbox can rename or replace a directory here, as
// it can in a volume that both have.
constexpr const char kVolumes[] = "/guard/volumes";
constexpr std::string_view kRootInSlot = "/root";
// Mounts of runsc or ours.
constexpr const char* kTaken[] = {"/proc", "/sys", "/dev", wire::kGuardedDirectory};

// The directory of the guard, and /tmp, in which runsc makes the sentry's root.
Status MountTreeOfGuard(SlotState& state) {
  // Cloned first, because MountTree leaves the paths of the host. runsc could also take a
  // descriptor, but in such a process /proc/self/exe names no path, which a static program of glibc
  // does not survive.
  ATOLL_ASSIGN(const UniqueFd execd,
               CloneMount(AT_FDCWD, state.input.host->config.execd.c_str(), false));
  ATOLL_TRY(SetMountAttributes(execd.get(), kNoSuidDev | MOUNT_ATTR_RDONLY, -1, false, MS_PRIVATE));
  ATOLL_TRY(MountTree(state));
  ATOLL_TRY(MakeDirectory("/tmp", 0700));
  // A place to mount on. In the root it would be a change of the sandbox.
  ATOLL_TRY(MakeDirectory("/own/.atoll", 0755));
  ATOLL_TRY(MountGuardDirectory());
  for (const char* path :
       {wire::kGuardBundle, wire::kGuardShared, kVolumes, "/guard/state", "/guard/proc"}) {
    ATOLL_TRY(MakeDirectory(path, 0755));
  }
  // Root of the sandbox can write here. One page, and inodes for itself, the program, the socket
  // and execd's sign: nothing is left to fill.
  ATOLL_ASSIGN(const UniqueFd shared_target, sys::Open(wire::kGuardShared, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(
      const UniqueFd shared,
      NewMount("tmpfs", {{"mode", "0755"}, {"size", "4k"}, {"nr_inodes", "4"}}, kNoSuidDev));
  ATOLL_TRY(Attach(shared.get(), shared_target.get(), wire::kGuardShared));
  ATOLL_ASSIGN(const UniqueFd program, sys::Open(wire::kGuardShared + std::string("/execd"),
                                                 O_RDONLY | O_CREAT | O_EXCL, 0555));
  return Attach(execd.get(), program.get(), "execd");
}

// The kernel lets runsc mount /proc for the sentry only if the slot has a /proc with nothing
// mounted in it. The slot's own gets a cover over meminfo at the build, so there is a second one.
Status MountSecondProc(SlotState&) {
  ATOLL_ASSIGN(const UniqueFd target, sys::Open("/guard/proc", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd proc, NewMount("proc", {}, kNoSuidDevExec));
  return Attach(proc.get(), target.get(), "/guard/proc");
}

Status EnterUserAsGuard(SlotState& state) {
  constexpr int kUnsealed = -1;
  ATOLL_ASSIGN(state.score, EnterUserNamespace(state.input.user_namespace, state.input.pass,
                                               kUnsealed, kAllCapabilities, 0));
  // runsc mounts, so it needs a mount namespace of its user namespace. The spawner enters this one
  // by the guard's pidfd.
  if (::unshare(CLONE_NEWNS) != 0) return FailSys("unshare CLONE_NEWNS");
  return {};
}

constexpr SlotStep kGuardSteps[] = {
    {Step::kNamespaces, FurnishNamespaces}, {Step::kTree, MountTreeOfGuard},
    {Step::kProc, MountProcOfSlot},         {Step::kMask, MountSecondProc},
    {Step::kRlimits, SetProcessLimits},     {Step::kUser, EnterUserAsGuard},
};

Result<int> PlaceForGuard(const SlotState& state) {
  const SlotChildInput& input = state.input;
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return FailSys("open /dev/null");
  DescriptorMove moves[] = {
      {input.host->guard.get(), kKeptAbove},
      {null.get(), 0},
      {null.get(), 1},
      {null.get(), 2},
      {input.gate, wire::kExecdGateFd},
      {input.control, wire::kExecdControlFd},
      {input.listener, wire::kExecdListenFd},
      {input.host->runsc.get(), wire::kGuardRuntimeFd},
  };
  ATOLL_TRY(MoveDescriptors(moves));
  return moves[0].from;
}

const SlotProgram kGuardProgram{kGuardSteps, PlaceForGuard, "atoll-guard", nullptr};

// Covers what runsc reads as the memory of the machine, and shows the sandbox.
Status CoverMemory(uint64_t memory_bytes) {
  if (memory_bytes == 0) return {};
  const std::string text = "MemTotal: " + std::to_string(memory_bytes >> 10) + " kB\n";
  constexpr const char kFile[] = "/guard/meminfo";
  {
    ATOLL_ASSIGN(const UniqueFd file,
                 sys::Open(kFile, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444));
    ATOLL_TRY(sys::WriteAll(file.get(), text));
  }
  ATOLL_ASSIGN(const UniqueFd target, sys::Open("/proc/meminfo", O_PATH | O_NOFOLLOW));
  ATOLL_ASSIGN(const UniqueFd cover, CloneMount(AT_FDCWD, kFile, false));
  return Attach(cover.get(), target.get(), "/proc/meminfo");
}

Status EnterSlotOfGuard(RootState& state) {
  if (!state.plan->volumes.empty()) {
    ATOLL_ASSIGN(state.descriptors, sys::Open("/proc/self/fd", O_PATH | O_DIRECTORY));
  }
  return EnterSlot(state);
}

int MountOf(const VolumeSource& source) {
  return source.bucket >= 0 ? source.bucket : source.mount.get();
}

std::string VolumePath(size_t i) {
  return std::string(kVolumes) + "/" + std::to_string(i);
}

// Returns the path in the sandbox, without links, where the mount has been attached. The image
// decides what is there, so a refusal is no failure of ours.
Result<std::string> TargetOf(const RootState& state, size_t i) {
  const std::string& asked = state.plan->volumes[i].target;
  const int mount = MountOf((*state.volumes)[i]);
  char path[PATH_MAX];
  const ssize_t n =
      ::readlinkat(state.descriptors.get(), std::to_string(mount).c_str(), path, sizeof path);
  if (n <= 0 || n == static_cast<ssize_t>(sizeof path)) return FailSys("readlink of " + asked);
  const std::string_view there(path, static_cast<size_t>(n));
  if (there.size() <= kRootInSlot.size() || !Within(std::string(there), std::string(kRootInSlot))) {
    return Fail(Code::kUnavailable, asked + " has gone while it was mounted");
  }
  std::string target(there.substr(kRootInSlot.size()));
  for (const char* taken : kTaken) {
    if (!Within(target, taken)) continue;
    return Fail(Code::kInvalidArgument,
                asked + " leads to " + taken + ", where no volume may be with isolation gvisor");
  }
  if (!IsUtf8(target)) {
    return Fail(Code::kInvalidArgument,
                asked + " leads to a name that is no UTF-8, which isolation gvisor cannot mount");
  }
  return target;
}

// Gives each volume a mount of its own, beside the one in the root.
Status MountVolumesForRunsc(RootState& state) {
  ATOLL_TRY(MountVolumes(state));
  for (size_t i = 0; i < state.plan->volumes.size(); ++i) {
    ATOLL_TRY(TargetOf(state, i));
    const VolumeSource& source = (*state.volumes)[i];
    const std::string path = VolumePath(i);
    if (source.directory) {
      ATOLL_TRY(MakeDirectory(path.c_str(), 0755));
    } else {
      ATOLL_TRY(sys::Open(path, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
    }
    ATOLL_ASSIGN(const UniqueFd place, sys::Open(path, O_PATH | O_NOFOLLOW));
    ATOLL_ASSIGN(const UniqueFd clone, CloneMount(MountOf(source), "", true));
    ATOLL_TRY(Attach(clone.get(), place.get(), path.c_str()));
  }
  return {};
}

Result<std::vector<GvisorVolume>> VolumesOf(const RootState& state) {
  std::vector<GvisorVolume> volumes;
  for (size_t i = 0; i < state.plan->volumes.size(); ++i) {
    ATOLL_ASSIGN(std::string target, TargetOf(state, i));
    volumes.push_back({VolumePath(i), std::move(target), state.plan->volumes[i].read_only});
  }
  std::stable_sort(
      volumes.begin(), volumes.end(),
      [](const GvisorVolume& a, const GvisorVolume& b) { return a.target < b.target; });
  return volumes;
}

// Returns true if the root itself has a directory /tmp, and no volume is there.
Result<bool> HasOwnTmp(const RootState& state) {
  const auto tmp = sys::OpenBeneath(state.root.get(), "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (tmp) return true;
  switch (tmp.error().error_number()) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case EXDEV:  // a volume
      return false;
    default:
      return Fail(tmp.error());
  }
}

Status WriteSpec(RootState& state) {
  const wire::Plan& plan = *state.plan;
  ATOLL_TRY(CoverMemory(plan.limits.memory_bytes));
  ATOLL_ASSIGN(std::vector<GvisorVolume> volumes, VolumesOf(state));
  ATOLL_ASSIGN(const bool tmp, HasOwnTmp(state));
  const std::string text =
      GvisorSpecText({.hostname = plan.hostname,
                      .capabilities = state.host->config.capabilities,
                      .shm_bytes = plan.limits.shm_bytes,
                      .nofile = plan.limits.nofile == 0 ? kUsualFiles : plan.limits.nofile,
                      .readonly_root = plan.readonly_root,
                      .tmp = tmp,
                      .volumes = std::move(volumes)});
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(std::string(wire::kGuardBundle) + "/config.json",
                                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  return sys::WriteAll(file.get(), text);
}

constexpr RootStep kRootBesideGuard[] = {
    {Step::kEnter, EnterSlotOfGuard},       {Step::kEtc, WriteEtc},
    {Step::kOverlay, MountOverlay},         {Step::kMounts, CoverStore},
    {Step::kVolumes, MountVolumesForRunsc}, {Step::kCover, WriteSpec},
};

}  // namespace

GvisorTier::GvisorTier(const Host& host)
    : GuardedTier(host, wire::kGvisorTier, kGuardProgram, kRootBesideGuard) {}

bool GvisorTier::HasWall() const {
  return static_cast<bool>(host_.runsc);
}

}  // namespace atl::spawner
