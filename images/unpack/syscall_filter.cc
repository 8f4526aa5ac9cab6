#include "images/unpack/syscall_filter.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <seccomp.h>
#include <sys/mman.h>

#include <vector>

#include "runtime/base/allow_calls.h"

namespace atl::images::unpack {
namespace {

// Files are made and described beneath the root directory. Nothing here starts a process or thread,
// opens a socket, maps code, or reads the memory of others.
constexpr int kAllowed[] = {
    // input, output, report
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(pread64), SCMP_SYS(pwrite64), SCMP_SYS(lseek),
    SCMP_SYS(close), SCMP_SYS(ftruncate), SCMP_SYS(syncfs),
    // writing the tree
    SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(newfstatat), SCMP_SYS(fstat), SCMP_SYS(fstatfs),
    SCMP_SYS(getdents64), SCMP_SYS(mkdirat), SCMP_SYS(mknodat), SCMP_SYS(linkat),
    SCMP_SYS(symlinkat), SCMP_SYS(unlinkat), SCMP_SYS(renameat2), SCMP_SYS(fchown),
    SCMP_SYS(fchownat), SCMP_SYS(fchmod), SCMP_SYS(utimensat), SCMP_SYS(fsetxattr),
    // reading it again
    SCMP_SYS(readlinkat), SCMP_SYS(flistxattr), SCMP_SYS(fgetxattr),
    // the C library: memory, its clock without a vDSO, exit
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
    SCMP_SYS(getrandom), SCMP_SYS(clock_gettime), SCMP_SYS(rt_sigreturn), SCMP_SYS(exit),
    SCMP_SYS(exit_group)};

// Further calls of a copy: updating a tree that an earlier pass made.
constexpr int kAllowedToCopy[] = {SCMP_SYS(fremovexattr), SCMP_SYS(copy_file_range)};

}  // namespace

Status LoadSyscallFilter(Job job) {
  constexpr uint64_t kWhole = ~uint64_t{0};
  std::vector<AllowedCall> calls;
  for (const int call : kAllowed) calls.push_back({call});
  if (job != Job::kUnpack) {
    for (const int call : kAllowedToCopy) calls.push_back({call});
    calls.push_back({SCMP_SYS(ioctl), 1, kWhole, FICLONE});
  }
  // mmap and mprotect must not make memory executable. fdopendir(3) uses fcntl to read the flags
  // and to set close-on-exec.
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    calls.push_back({call, 2, PROT_EXEC, 0});
  }
  for (const uint64_t command : {F_GETFL, F_SETFD}) {
    calls.push_back({SCMP_SYS(fcntl), 1, kWhole, command});
  }
  return AllowOnly(calls);
}

}  // namespace atl::images::unpack
