#include "runtime/spawner/slot/slot_proc.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"

namespace atl::spawner {
namespace {

// Files that tell about the host or reach it and are world-readable, so that the user namespace
// alone does not hide them: the list of OCI runtimes and a few more. A file that this kernel does
// not have is skipped.
constexpr const char* kMaskedInProc[] = {
    "acpi",        "asound", "bus",           "fs",         "interrupts",    "irq",
    "kallsyms",    "kcore",  "key-users",     "keys",       "latency_stats", "modules",
    "sched_debug", "scsi",   "sysrq-trigger", "timer_list", "timer_stats"};

// A missing file is skipped, because IPv6 may be switched off on the host. The first two give
// unprivileged programs what they have in every container: ports below 1024 and ping. The rest
// keeps the kernel from sending or accepting anything that the host did not set up (addresses,
// routes, neighbours are all static).
struct Sysctl {
  const char* path;
  const char* value;
};
constexpr Sysctl kSysctls[] = {
    {"net/ipv4/ip_unprivileged_port_start", "0"}, {"net/ipv4/ping_group_range", "0 4294967294"},
    {"net/ipv6/conf/all/accept_ra", "0"},         {"net/ipv6/conf/default/accept_ra", "0"},
    {"net/ipv6/conf/default/accept_dad", "0"},    {"net/ipv6/conf/default/autoconf", "0"},
};

Status CheckNull(int null) {
  struct stat info {};
  if (::fstat(null, &info) != 0 || !S_ISCHR(info.st_mode) || info.st_rdev != makedev(1, 3)) {
    return Fail(Code::kInternal, "/dev/null is not the null device");
  }
  return {};
}

}  // namespace

Status MountProc() {
  ATOLL_ASSIGN(const UniqueFd target, sys::Open("/proc", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd proc,
               NewMount("proc", {}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
  return Attach(proc.get(), target.get(), "/proc");
}

Status SetNetworkDefaults(int sysctls) {
  for (const Sysctl& sysctl : kSysctls) {
    Status written = sys::WriteFileAt(sysctls, sysctl.path, sysctl.value);
    if (!written && written.error().error_number() != ENOENT) return written;
  }
  return {};
}

Status MaskProc(const char* empty_directory, uid_t owner) {
  ATOLL_ASSIGN(const UniqueFd proc, sys::Open("/proc", O_PATH | O_DIRECTORY));
  // The source of every mask is the slot's own /dev, which no image has touched. It is checked all
  // the same (CVE-2025-31133).
  ATOLL_ASSIGN(const UniqueFd null, sys::Open("/dev/null", O_PATH | O_NOFOLLOW));
  ATOLL_TRY(CheckNull(null.get()));
  ATOLL_ASSIGN(const UniqueFd empty, sys::Open(empty_directory, O_PATH | O_DIRECTORY));

  const auto mask = [&](int root, const char* path) -> Status {
    auto target = sys::OpenBeneath(root, path, O_PATH | O_NOFOLLOW);
    if (!target) {
      return target.error().error_number() == ENOENT ? Status() : Fail(std::move(target).error());
    }
    struct stat info {};
    if (::fstat(target->get(), &info) != 0) return FailSys(std::string("fstat ") + path);
    // A file that is closed to others is closed to every id of the sandbox. Its owner, the host's
    // root, is none of them, and capabilities reach no file of an owner outside the user namespace.
    if ((info.st_mode & S_IRWXO) == 0 && info.st_uid != owner) return {};
    if (S_ISDIR(info.st_mode)) {
      ATOLL_ASSIGN(const UniqueFd cover, CloneMount(empty.get(), "", false));
      return Attach(cover.get(), target->get(), path);
    }
    ATOLL_ASSIGN(const UniqueFd cover, CloneMount(null.get(), "", false));
    return Attach(cover.get(), target->get(), path);
  };
  for (const char* path : kMaskedInProc) ATOLL_TRY(mask(proc.get(), path));
  // The sandbox's root in a virtual machine is the kernel's own, which may list the descriptors of
  // process 1. They stay in task/, where execd finds its own (sys::FdPath); nobody opens them there
  // without CAP_SYS_PTRACE.
  if (owner == 0) ATOLL_TRY(mask(proc.get(), "1/fd"));

  // Everything below /proc/sys belongs to the host or the namespaces. So it is read-only, on top of
  // the kernel's own checks (release_agent, core_pattern, binfmt_misc).
  ATOLL_ASSIGN(const UniqueFd target,
               sys::OpenBeneath(proc.get(), "sys", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(const UniqueFd readonly, CloneMount(proc.get(), "sys", false));
  ATOLL_TRY(SetMountAttributes(readonly.get(), MOUNT_ATTR_RDONLY, -1, false));
  return Attach(readonly.get(), target.get(), "/proc/sys");
}

Status CoverDescriptors(const char* streams) {
  ATOLL_ASSIGN(const UniqueFd target, sys::Open("/proc/1/fd", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd cover, CloneMount(AT_FDCWD, streams, false));
  ATOLL_TRY(SetMountAttributes(cover.get(), kNoSuidDevExec | MOUNT_ATTR_RDONLY, -1, false));
  return Attach(cover.get(), target.get(), "/proc/1/fd");
}

}  // namespace atl::spawner
