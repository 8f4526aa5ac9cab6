#include "runtime/guard/vm/monitor_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "runtime/base/sys.h"

namespace atl::guard {
namespace {

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

constexpr uint32_t kAllowed[] = {
    // Memory.
    SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_memfd_create,
    SYS_fallocate, SYS_ftruncate, SYS_membarrier,
    // Files: the program's own, the firmware, the kernel.
    SYS_openat, SYS_close, SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_write, SYS_writev,
    SYS_pwrite64, SYS_pwritev, SYS_lseek, SYS_newfstatat, SYS_fstat, SYS_statx, SYS_access,
    SYS_faccessat, SYS_faccessat2, SYS_readlink, SYS_getcwd, SYS_fcntl, SYS_dup, SYS_dup2, SYS_dup3,
    SYS_umask, SYS_getdents64, SYS_fstatfs, SYS_statfs,
    // Devices, and the servers of devices.
    SYS_ioctl, SYS_sendmsg, SYS_recvmsg, SYS_sendto, SYS_recvfrom, SYS_getsockopt, SYS_setsockopt,
    SYS_getsockname, SYS_getpeername, SYS_shutdown,
    // Events and time.
    SYS_poll, SYS_ppoll, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_wait, SYS_epoll_pwait,
    SYS_eventfd2, SYS_signalfd4, SYS_pipe2, SYS_timer_create, SYS_timer_settime, SYS_timer_gettime,
    SYS_timer_delete, SYS_timerfd_create, SYS_timerfd_settime, SYS_clock_gettime, SYS_clock_getres,
    SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_time,
    // Threads and signals of its own.
    SYS_futex, SYS_set_robust_list, SYS_set_tid_address, SYS_rseq, SYS_gettid, SYS_getpid,
    SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigtimedwait,
    SYS_rt_sigpending, SYS_sigaltstack, SYS_restart_syscall, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_arch_prctl, SYS_prctl, SYS_exit, SYS_exit_group,
    // Questions about itself.
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getppid, SYS_prlimit64, SYS_sysinfo,
    SYS_uname, SYS_getrandom};

class Program {
 public:
  void Load(uint32_t offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void Return(uint32_t verdict) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, verdict)); }
  void ReturnIf(uint32_t value, uint32_t verdict) {
    SkipUnless(BPF_JEQ, value, 1);
    Return(verdict);
  }
  void ReturnUnless(uint32_t value, uint32_t verdict) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    Return(verdict);
  }
  // Goes on with the next `count` instructions only if the test holds.
  void SkipUnless(uint16_t test, uint32_t value, uint8_t count) {
    code_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, 0, count));
  }
  Status LoadIt() const {
    const sock_fprog filter{static_cast<unsigned short>(code_.size()),
                            const_cast<sock_filter*>(code_.data())};
    if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) {
      return FailSys("seccomp SET_MODE_FILTER");
    }
    return {};
  }

 private:
  std::vector<sock_filter> code_;
};

constexpr uint32_t Argument(int number) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + sizeof(uint64_t) * number);
}

// `pass`: what execveat has to have in the argument that it does not take. The monitor never knows
// it, so it executes nothing more.
Status LoadMonitorFilter(uint64_t pass) {
  Program program;
  program.Load(offsetof(seccomp_data, arch));
  program.ReturnUnless(AUDIT_ARCH_X86_64, SECCOMP_RET_KILL_PROCESS);
  // Calls of x32 have numbers of their own, which are not in the list.
  program.Load(offsetof(seccomp_data, nr));
  for (const uint32_t call : kAllowed) program.ReturnIf(call, SECCOMP_RET_ALLOW);
  // Its flags are behind a pointer. The library then calls clone.
  program.ReturnIf(SYS_clone3, kUnknown);
  program.SkipUnless(BPF_JEQ, SYS_clone, 4);
  program.Load(Argument(0));
  program.SkipUnless(BPF_JSET, CLONE_THREAD, 1);
  program.Return(SECCOMP_RET_ALLOW);
  program.Return(kRefuse);
  program.SkipUnless(BPF_JEQ, SYS_socketpair, 4);
  program.Load(Argument(0));
  program.SkipUnless(BPF_JEQ, AF_UNIX, 1);
  program.Return(SECCOMP_RET_ALLOW);
  program.Return(kRefuse);
  program.SkipUnless(BPF_JEQ, SYS_execveat, 5);
  program.Load(Argument(5));
  program.SkipUnless(BPF_JEQ, static_cast<uint32_t>(pass), 3);
  program.Load(Argument(5) + sizeof(uint32_t));
  program.SkipUnless(BPF_JEQ, static_cast<uint32_t>(pass >> 32), 1);
  program.Return(SECCOMP_RET_ALLOW);
  program.Return(kRefuse);
  return program.LoadIt();
}

}  // namespace

Status ExecuteMonitor(char* const argv[], char* const envp[]) {
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(argv[0], O_PATH));
  uint64_t pass = 0;
  if (::getrandom(&pass, sizeof pass, 0) != sizeof pass) return FailSys("getrandom");
  ATOLL_TRY(LoadMonitorFilter(pass));
  ::syscall(SYS_execveat, file.get(), "", argv, envp, AT_EMPTY_PATH, pass);
  return FailSys("execveat");
}

}  // namespace atl::guard
