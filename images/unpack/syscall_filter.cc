#include "images/unpack/syscall_filter.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <seccomp.h>
#include <sys/mman.h>

#include <memory>
#include <string>

namespace atl::images::unpack {
namespace {

// Files are made and described below the root directory; nothing here starts a process or a
// thread, opens a socket, maps code, or reads memory of others.
constexpr int kAllowed[] = {
    // input, output, report
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(pread64), SCMP_SYS(pwrite64), SCMP_SYS(lseek),
    SCMP_SYS(close), SCMP_SYS(ftruncate), SCMP_SYS(syncfs),
    // the tree
    SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(newfstatat), SCMP_SYS(fstat), SCMP_SYS(fstatfs),
    SCMP_SYS(getdents64), SCMP_SYS(mkdirat), SCMP_SYS(mknodat), SCMP_SYS(linkat),
    SCMP_SYS(symlinkat), SCMP_SYS(unlinkat), SCMP_SYS(fchown), SCMP_SYS(fchownat), SCMP_SYS(fchmod),
    SCMP_SYS(utimensat), SCMP_SYS(fsetxattr),
    // and to read it again
    SCMP_SYS(readlinkat), SCMP_SYS(flistxattr), SCMP_SYS(fgetxattr),
    // the C library: memory, its clock without a vDSO, its end
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
    SCMP_SYS(getrandom), SCMP_SYS(clock_gettime), SCMP_SYS(rt_sigreturn), SCMP_SYS(exit),
    SCMP_SYS(exit_group)};

// And to make a tree what another one has become.
constexpr int kAllowedToCopy[] = {SCMP_SYS(fremovexattr), SCMP_SYS(copy_file_range)};

struct FilterFree {
  void operator()(void* context) const { seccomp_release(context); }
};

}  // namespace

Status LoadSyscallFilter(Job job) {
  const std::unique_ptr<void, FilterFree> filter(seccomp_init(SCMP_ACT_KILL_PROCESS));
  if (!filter) return Fail(Code::kInternal, "seccomp_init");
  const auto check = [](int rc, const std::string& call) -> Status {
    if (rc != 0) return Fail(SysError(call, -rc));
    return {};
  };
  // i386 and x32 numbers mean other calls.
  ATOLL_TRY(check(seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS),
                  "badarch"));
  for (const int call : kAllowed) {
    ATOLL_TRY(check(seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0),
                    "seccomp_rule_add " + std::to_string(call)));
  }
  if (job != Job::kUnpack) {
    for (const int call : kAllowedToCopy) {
      ATOLL_TRY(check(seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0),
                      "seccomp_rule_add " + std::to_string(call)));
    }
    ATOLL_TRY(check(seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                     SCMP_A1(SCMP_CMP_EQ, FICLONE)),
                    "seccomp_rule_add ioctl"));
  }
  // Memory may not become code. fcntl: fdopendir(3) reads the flags, and marks close-on-exec.
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    ATOLL_TRY(check(seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 1,
                                     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)),
                    "seccomp_rule_add mmap"));
  }
  for (const unsigned command : {F_GETFL, F_SETFD}) {
    ATOLL_TRY(check(seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                                     SCMP_A1(SCMP_CMP_EQ, command)),
                    "seccomp_rule_add fcntl"));
  }
  return check(seccomp_load(filter.get()), "seccomp_load");
}

}  // namespace atl::images::unpack
