#include "execd/gate.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/wire/start.h"

namespace atl::execd {
namespace {

// One read is enough, because the kernel does not split such a short write to a pipe (PIPE_BUF).
Status Read(void* out, size_t size) {
  const ssize_t n = TEMP_FAILURE_RETRY(::read(wire::kExecdGateFd, out, size));
  if (n < 0) return FailSys("read fd 3, the gate");
  if (n == 0) return Fail(Code::kUnavailable, "fd 3, the gate: closed");
  if (static_cast<size_t>(n) != size) return Fail(Code::kInternal, "fd 3, the gate: a short pass");
  return {};
}

Result<uint64_t> MountOf(const char* path) {
  struct statx info {};
  // STATX_MNT_ID needs Linux 5.8.
  if (::statx(AT_FDCWD, path, 0, STATX_MNT_ID, &info) != 0) {
    return FailSys(std::string("statx ") + path);
  }
  return info.stx_mnt_id;
}

// A mount on top of a process's root does not change that root. But a lookup of ".." from the root
// follows the mount, and so leads to the new root.
Status EnterRoot() {
  ATOLL_ASSIGN(const uint64_t slot, MountOf("/"));
  if (::chdir("/..") != 0) return FailSys("chdir /..");
  ATOLL_ASSIGN(const uint64_t root, MountOf("."));
  if (root == slot) return Fail(Code::kInternal, "no root was mounted over the slot's tree");
  if (::chroot(".") != 0) return FailSys("chroot");
  return {};
}

// Drops CAP_SYS_CHROOT, unless the bounding set gives it to every program of the sandbox. No
// program can gain a capability that process 1 lacks.
Status DropChroot() {
  const bool granted = ::prctl(PR_CAPBSET_READ, CAP_SYS_CHROOT) == 1;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return FailSys("capget");
  constexpr uint32_t keep = ~(uint32_t{1} << CAP_SYS_CHROOT);
  if (!granted) {
    data[0].effective &= keep;
    data[0].permitted &= keep;
  }
  // Cleared, because every program with file capabilities would gain the inheritable ones.
  data[0].inheritable &= keep;
  if (::syscall(SYS_capset, &header, data) != 0) return FailSys("capset");
  return {};
}

}  // namespace

Result<uint64_t> PassGate(bool has_pass, bool enter_root) {
  uint64_t pass = 0;
  static_assert(sizeof pass == wire::kPassSize);
  if (has_pass) ATOLL_TRY(Read(&pass, sizeof pass));
  char byte;
  ATOLL_TRY(Read(&byte, 1));
  // Stays open, although nothing else is ever read from it: its number must stay in use, see
  // FillGate.
  if (enter_root) ATOLL_TRY(EnterRoot());
  ATOLL_TRY(DropChroot());
  return pass;
}

}  // namespace atl::execd
