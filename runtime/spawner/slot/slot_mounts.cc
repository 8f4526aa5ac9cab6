#include "runtime/spawner/slot/slot_mounts.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/devices.h"
#include "runtime/spawner/kernel/mounts.h"

namespace atl::spawner {
namespace {

// World-readable facts about the host's firmware and power.
constexpr const char* kMaskedInSys[] = {"firmware", "devices/virtual/powercap"};

Result<UniqueFd> MountAt(int dir, const char* name, const char* type, const MountOptions& options,
                         uint64_t attributes) {
  ATOLL_ASSIGN(const UniqueFd target, sys::OpenBeneath(dir, name, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(UniqueFd mount, NewMount(type, options, attributes));
  ATOLL_TRY(Attach(mount.get(), target.get(), name));
  return mount;
}

Status AttachAt(int mount, int dir, const char* name) {
  ATOLL_ASSIGN(const UniqueFd target, sys::OpenBeneath(dir, name, O_PATH | O_DIRECTORY));
  return Attach(mount, target.get(), name);
}

Status MountStore(const Host& host, int top, int id_map) {
  // Opens the store by name, because only a mount of this namespace can be cloned, and descriptors
  // of the spawner belong to its own namespace.
  ATOLL_ASSIGN(const UniqueFd store,
               CloneMount(AT_FDCWD, (host.store.path() + "/fs").c_str(), false));
  ATOLL_TRY(SetMountAttributes(store.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, id_map, false));
  return AttachAt(store.get(), top, "store");
}

Status MountDevices(int top, uid_t base, uint64_t shm_bytes) {
  ATOLL_ASSIGN(const UniqueFd target, sys::OpenBeneath(top, "dev", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd dev, MountDeviceNodes(target.get()));
  // Group 5 is tty in Debian, Alpine and Fedora alike.
  ATOLL_ASSIGN(const UniqueFd pts, sys::OpenBeneath(dev.get(), "pts", O_PATH | O_DIRECTORY));
  ATOLL_TRY(MountTerminals(pts.get(), base + 5, kMaxTerminals));
  ATOLL_TRY(MountAt(dev.get(), "shm", "tmpfs",
                    {{"mode", "1777"}, {"size", std::to_string(shm_bytes)}}, kNoSuidDevExec));
  ATOLL_TRY(MountAt(dev.get(), "mqueue", "mqueue", {}, kNoSuidDevExec));
  return {};
}

// Shows the sandbox's groups at /sys/fs/cgroup, because language runtimes take their size from
// there. The root of each mount is the sandbox's own group, as in /proc/self/cgroup and mountinfo
// by the cgroup namespace. On hybrid hosts it looks as it does outside: v1 hierarchies by name, v2
// beside them.
Status MountGroups(int top, int sysfs, const std::vector<cgroup::View>& views) {
  constexpr uint64_t kAttributes = kNoSuidDevExec | MOUNT_ATTR_RDONLY;
  if (views.empty()) {
    ATOLL_TRY(MountAt(sysfs, "fs/cgroup", "cgroup2", {}, kAttributes));
    return {};
  }
  ATOLL_ASSIGN(const UniqueFd directory, sys::OpenBeneath(top, "cgroup", O_PATH | O_DIRECTORY));
  for (const cgroup::View& view : views) {
    if (::mkdirat(directory.get(), view.name.c_str(), 0555) != 0) {
      return FailSys("mkdir cgroup/" + view.name);
    }
  }
  if (::mkdirat(directory.get(), "unified", 0555) != 0) return FailSys("mkdir cgroup/unified");
  ATOLL_ASSIGN(const UniqueFd parent, CloneMount(top, "cgroup", false));
  ATOLL_TRY(SetMountAttributes(parent.get(), kAttributes, -1, false));
  ATOLL_TRY(AttachAt(parent.get(), sysfs, "fs/cgroup"));
  ATOLL_TRY(MountAt(parent.get(), "unified", "cgroup2", {}, kAttributes));
  for (const cgroup::View& view : views) {
    ATOLL_ASSIGN(const UniqueFd mount, CloneMount(AT_FDCWD, view.path.c_str(), false));
    ATOLL_TRY(SetMountAttributes(mount.get(), kAttributes, -1, false, MS_PRIVATE));
    ATOLL_TRY(AttachAt(mount.get(), parent.get(), view.name.c_str()));
  }
  return {};
}

// sysconf(_SC_NPROCESSORS_ONLN) of glibc reads this file, and with it os.cpu_count(),
// hardware_concurrency() and lscpu.
Status CoverOnline(int top, int sysfs) {
  constexpr const char* kPath = "devices/system/cpu/online";
  const auto target = sys::OpenBeneath(sysfs, kPath, O_PATH | O_NOFOLLOW);
  if (!target && target.error().error_number() == ENOENT) return {};
  if (!target) return Fail(target.error());
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(sysfs, kPath, 4096));
  ATOLL_ASSIGN(const UniqueFd file,
               sys::OpenAt(top, kOnlineFile, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444));
  ATOLL_TRY(sys::WriteAll(file.get(), text));
  ATOLL_ASSIGN(const UniqueFd cover, CloneMount(top, kOnlineFile, false));
  ATOLL_TRY(SetMountAttributes(cover.get(), kNoSuidDevExec | MOUNT_ATTR_RDONLY, -1, false));
  return Attach(cover.get(), target->get(), kPath);
}

Status MountSysfs(int top, int empty, const std::vector<cgroup::View>& views) {
  // sysfs shows the network namespace that it was mounted from, and needs rights over it.
  ATOLL_ASSIGN(const UniqueFd sysfs,
               MountAt(top, "sys", "sysfs", {}, kNoSuidDevExec | MOUNT_ATTR_RDONLY));
  ATOLL_TRY(MountGroups(top, sysfs.get(), views));
  ATOLL_TRY(CoverOnline(top, sysfs.get()));
  for (const char* path : kMaskedInSys) {
    const auto target = sys::OpenBeneath(sysfs.get(), path, O_PATH | O_DIRECTORY);
    if (!target && target.error().error_number() == ENOENT) continue;
    if (!target) return Fail(target.error());
    ATOLL_ASSIGN(const UniqueFd cover, CloneMount(empty, "", false));
    ATOLL_TRY(Attach(cover.get(), target->get(), path));
  }
  return {};
}

}  // namespace

Status MakeStreams(int directory) {
  if (::symlinkat("/dev/null", directory, "0") != 0) return FailSys("symlink streams/0");
  for (const char* name : {"1", "2"}) {
    if (::mknodat(directory, name, S_IFIFO | 0666, 0) != 0) {
      return FailSys(std::string("mkfifo streams/") + name);
    }
  }
  if (::fchmodat(directory, ".", 0500, 0) != 0) return FailSys("chmod streams");
  return {};
}

Status MountTerminals(int target, gid_t group, uint32_t most) {
  const auto make = [&](const std::string& gid) {
    return NewMount("devpts",
                    {{"newinstance", ""},
                     {"ptmxmode", "0666"},
                     {"mode", "0620"},
                     {"gid", gid},
                     {"max", std::to_string(most)}},
                    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  };
  auto mounted = make(std::to_string(group));
  if (!mounted && mounted.error().error_number() == EINVAL && group > INT32_MAX) {
    // Up to its move to the new mount API (6.1 still refuses, 6.18 no longer does) devpts read the
    // group into an int. It takes the upper half of all ids only as the 64 bits of a negative
    // number.
    const auto negative = static_cast<int64_t>(static_cast<int32_t>(group));
    mounted = make(std::to_string(static_cast<uint64_t>(negative)));
  }
  if (!mounted) return Fail(std::move(mounted).error());
  return Attach(mounted->get(), target, "pts");
}

Status ActAs(uid_t base) {
  // No fix-up, because a change of fsuid would take the file system capabilities away.
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) != 0) return FailSys("PR_SET_SECUREBITS");
  ::setfsgid(base);
  ::setfsuid(base);
  if (static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) != base) {
    return Fail(Code::kInternal, "setfsuid " + std::to_string(base) + ": refused");
  }
  ::umask(0);
  return {};
}

Status AssembleMounts(const Host& host, uid_t base, int id_map, uint64_t shm_bytes,
                      const std::vector<cgroup::View>& views) {
  ATOLL_TRY(ActAs(base));
  ATOLL_ASSIGN(const UniqueFd staging, sys::Open(host.staging, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd top,
               NewMount("tmpfs", {{"mode", "0755"}, {"size", "256k"}, {"nr_inodes", "48"}},
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
  ATOLL_TRY(Attach(top.get(), staging.get(), "staging"));
  for (const char* name :
       {"store", "root", "dev", "sys", "cgroup", "proc", "own", "own/etc", "empty", "streams"}) {
    if (::mkdirat(top.get(), name, 0755) != 0) return FailSys(std::string("mkdir ") + name);
  }
  for (const char* name : kOwnFiles) {
    ATOLL_TRY(sys::OpenAt(top.get(), std::string("own/etc/") + name,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  }
  ATOLL_ASSIGN(const UniqueFd streams,
               sys::OpenBeneath(top.get(), "streams", O_RDONLY | O_DIRECTORY));
  ATOLL_TRY(MakeStreams(streams.get()));
  ATOLL_ASSIGN(const UniqueFd empty, MountAt(top.get(), "empty", "tmpfs",
                                             {{"mode", "0555"}, {"size", "4k"}, {"nr_inodes", "2"}},
                                             kNoSuidDevExec | MOUNT_ATTR_RDONLY));
  ATOLL_TRY(MountStore(host, top.get(), id_map));
  ATOLL_TRY(MountDevices(top.get(), base, shm_bytes));
  ATOLL_TRY(MountSysfs(top.get(), empty.get(), views));
  if (::fchdir(top.get()) != 0) return FailSys("fchdir");
  // pivot_root(".", "."): the old root ends up on top of the new one and is taken off by the next
  // call, so no directory for it is needed (pivot_root(2), notes).
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return FailSys("pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return FailSys("umount the host's tree");
  if (::chdir("/") != 0) return FailSys("chdir /");
  return {};
}

}  // namespace atl::spawner
