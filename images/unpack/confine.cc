#include "images/unpack/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <string>
#include <vector>

#include "images/unpack/entry_path.h"
#include "images/unpack/syscall_filter.h"
#include "runtime/base/descriptors.h"
#include "runtime/base/resource_limit.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

// zstd needs 128 MiB for its largest window; names and times of directories need 64 MiB.
constexpr rlim_t kAddressSpace = rlim_t{1} << 30;
// Enough for two million names in one directory. Smaller than the other limit, because more of
// these processes may run at once.
constexpr rlim_t kDiffAddressSpace = rlim_t{512} << 20;
// Two for each level of depth: in the tree that is read, and in its copy.
constexpr rlim_t kTreeDescriptors = 2 * (kMaxDepth + 1) + 64;
// One for each layer that has the current directory. Trees that are deep and have many layers are
// refused.
constexpr rlim_t kDiffDescriptors = kEnoughDescriptors;
constexpr rlim_t kCpuSeconds = 3600;

constexpr uint32_t Bit(int capability) {
  return uint32_t{1} << capability;
}
// Enough to give files of this user namespace any owner, mode and capability.
constexpr uint32_t kCapabilities =
    Bit(CAP_CHOWN) | Bit(CAP_DAC_OVERRIDE) | Bit(CAP_FOWNER) | Bit(CAP_FSETID) | Bit(CAP_SETFCAP);

Status CheckSurroundings() {
  // The initial user namespace maps every id to itself. This program must not run as root there.
  ATOLL_ASSIGN(const std::string map, sys::ReadFileAt(AT_FDCWD, "/proc/self/uid_map", 4096));
  if (map.find(" 4294967295") != std::string::npos || map.empty()) {
    return Fail(Code::kPermissionDenied,
                "atoll-unpack must be started by the spawner: it has no user namespace of its own");
  }
  if (::getpid() != 1) {
    return Fail(Code::kPermissionDenied,
                "atoll-unpack must be started by the spawner: it has no pid namespace of its own");
  }
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
    return Fail(Code::kPermissionDenied, "no_new_privs is not set");
  }
  return {};
}

// Afterwards the mount namespace holds one empty, read-only tmpfs, and the process's root is
// `output`. fchdir and chroot are used instead of a bind mount of `output`: its descriptor comes
// from another mount namespace, where open_tree(2) and mount(2) would fail with EINVAL, and the
// path to it leads through directories that this process cannot enter. The ways out of a chroot
// (another chroot, a descriptor outside, a mount) are closed by the capabilities, the descriptors
// and the filter. Even a process that got out would find only the empty tmpfs.
Status EnterDirectory(int output) {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailSys("mount private /");
  }
  if (::mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=4k,nr_inodes=2,mode=0555") != 0) {
    return FailSys("mount tmpfs /proc");
  }
  if (::chdir("/proc") != 0) return FailSys("chdir /proc");
  // pivot_root(".", ".") stacks the old root on top of the new one, see pivot_root(2).
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return FailSys("pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return FailSys("umount old root");
  if (::mount(nullptr, "/", nullptr,
              MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    return FailSys("remount / read-only");
  }
  if (::fchdir(output) != 0) return FailSys("fchdir output");
  if (::chroot(".") != 0) return FailSys("chroot output");
  if (::chdir("/") != 0) return FailSys("chdir /");
  return {};
}

Status CloseOthers(int input, int output, int report, size_t layers) {
  std::vector<int> keep = {input, output, report};
  for (size_t i = 1; i <= layers; ++i) keep.push_back(report + static_cast<int>(i));
  std::sort(keep.begin(), keep.end());
  unsigned from = 0;
  for (const int fd : keep) {
    const auto number = static_cast<unsigned>(fd);
    if (number > from && ::close_range(from, number - 1, 0) != 0) return FailSys("close_range");
    from = number + 1;
  }
  if (::close_range(from, ~0U, 0) != 0) return FailSys("close_range");
  return {};
}

Status LimitResources(const ExtractLimits& limits, Job job) {
  // A file's length says nothing about the blocks that a sandbox's file uses, and an archive has
  // many layers.
  const bool any_size = job == Job::kCopy || job == Job::kPack;
  const rlim_t file_size = any_size ? RLIM_INFINITY : limits.max_bytes;
  const rlim_t descriptors = job == Job::kDiff ? kDiffDescriptors : kTreeDescriptors;
  struct {
    __rlimit_resource resource;
    rlim_t value;
  } const wanted[] = {
      {RLIMIT_CORE, 0},          {RLIMIT_NOFILE, descriptors},
      {RLIMIT_FSIZE, file_size}, {RLIMIT_AS, job == Job::kDiff ? kDiffAddressSpace : kAddressSpace},
      {RLIMIT_CPU, kCpuSeconds}, {RLIMIT_MEMLOCK, 0},
      {RLIMIT_NPROC, 1},
  };
  for (const auto& [resource, value] : wanted) {
    ATOLL_TRY(LimitResource(resource, value));
  }
  // A file beyond RLIMIT_FSIZE then fails with EFBIG and a message instead of a signal.
  ::signal(SIGXFSZ, SIG_IGN);
  return {};
}

Status DropCapabilities() {
  // The bounding set comes first, while CAP_SETPCAP is still there.
  for (int capability = 0;; ++capability) {
    const int present = ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
    if (present < 0) break;  // past the kernel's last capability
    if (capability < 32 && (kCapabilities & Bit(capability)) != 0) continue;
    if (present == 1 && ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      return FailSys("PR_CAPBSET_DROP " + std::to_string(capability));
    }
  }
  constexpr unsigned kBits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                             SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                             SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (::prctl(PR_SET_SECUREBITS, kBits, 0, 0, 0) != 0) return FailSys("PR_SET_SECUREBITS");
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
    return FailSys("PR_CAP_AMBIENT_CLEAR_ALL");
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {{kCapabilities, kCapabilities, 0}, {0, 0, 0}};
  if (::syscall(SYS_capset, &header, data) != 0) return FailSys("capset");
  return {};
}

}  // namespace

Status Confine(int input, int output, int report, const ExtractLimits& limits, Job job,
               size_t layers) {
  ATOLL_TRY(CheckSurroundings());
  ATOLL_TRY(EnterDirectory(output));
  ATOLL_TRY(CloseOthers(input, output, report, layers));
  ATOLL_TRY(LimitResources(limits, job));
  ATOLL_TRY(DropCapabilities());
  // Prevents core dumps of the input, and ptrace by other processes of the same id range.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return FailSys("PR_SET_DUMPABLE");
  ::umask(0);
  return LoadSyscallFilter(job);
}

}  // namespace atl::images::unpack
