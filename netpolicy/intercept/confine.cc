#include "netpolicy/intercept/confine.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "runtime/base/allow_calls.h"
#include "runtime/base/core_dump.h"
#include "runtime/base/resource_limit.h"
#include "runtime/base/sys.h"

namespace atl::intercept {
namespace {

constexpr int kAllowed[] = {
    // existing sockets and the line
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(recvmsg),
    SCMP_SYS(sendmsg), SCMP_SYS(shutdown), SCMP_SYS(setsockopt), SCMP_SYS(getsockopt),
    SCMP_SYS(close),
    // the event loop
    SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2),
    SCMP_SYS(timerfd_settime), SCMP_SYS(poll), SCMP_SYS(ppoll),
    // the vault's memfd
    SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(lseek), SCMP_SYS(pread64),
    // the libraries: memory, random numbers, a clock without a vDSO, exit
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
    SCMP_SYS(getrandom), SCMP_SYS(clock_gettime), SCMP_SYS(getpid), SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group)};

// Limit of the address space. 256 connections with a handshake, buffers and a head each come to 80
// MiB; held bodies to kMaxHeldBodies; the program itself maps 40 MiB.
constexpr rlim_t kMaxMemory = 256 << 20;
// If the host runs out of memory, the kernel should kill an interceptor before the daemon: the next
// connection starts it again.
constexpr std::string_view kOomScore = "500";

}  // namespace

Status Confine() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailSys("prctl PR_SET_NO_NEW_PRIVS");
  if (::chdir("/") != 0) return FailSys("chdir /");
  ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, "/proc/self/oom_score_adj", kOomScore));
  // Keeps the other processes of the daemon's user from looking into this one. It comes after the
  // writes above, because from here on our files in /proc belong to root.
  ATOLL_TRY(ForbidCoreDumps());
  ATOLL_TRY(LimitResource(RLIMIT_AS, kMaxMemory));
  std::vector<AllowedCall> calls;
  for (const int call : kAllowed) calls.push_back({call});
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    calls.push_back({call, 2, PROT_EXEC, 0});
  }
  calls.push_back({SCMP_SYS(ioctl), 1, ~uint64_t{0}, FIONREAD});
  calls.push_back({SCMP_SYS(fcntl), 1, ~uint64_t{0}, F_GETFL});
  return AllowOnly(calls);
}

}  // namespace atl::intercept
