#include "runtime/spawner/slot/execd_process.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/move_descriptors.h"
#include "runtime/base/resource_limit.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/wire/start.h"

namespace atl::spawner {
Status SetCapabilities(uint64_t mask, uint64_t more) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return FailSys("capget");
  // First, because only what is in the bounding set can become inheritable.
  data[0].inheritable = static_cast<uint32_t>(more);
  data[1].inheritable = 0;
  if (::syscall(SYS_capset, &header, data) != 0) return FailSys("capset inheritable");
  for (int capability = 0;; ++capability) {
    if (mask >> capability & 1) continue;
    // EINVAL: past the last capability of this kernel.
    if (::prctl(PR_CAPBSET_DROP, capability) != 0) {
      if (errno == EINVAL && capability > CAP_MKNOD) break;
      return FailSys("PR_CAPBSET_DROP " + std::to_string(capability));
    }
  }
  const uint64_t own = mask | more;
  data[0].effective = data[0].permitted = static_cast<uint32_t>(own);
  data[1].effective = data[1].permitted = static_cast<uint32_t>(own >> 32);
  if (::syscall(SYS_capset, &header, data) != 0) return FailSys("capset");
  return {};
}

Result<UniqueFd> EnterUserNamespace(int user_namespace, uint64_t pass, int sysctls,
                                    uint64_t capabilities, uint64_t more) {
  // Opened while it is ours. What is written with CAP_SYS_RESOURCE becomes the lowest value that
  // anybody in the sandbox can return to, whatever we were started with.
  ATOLL_ASSIGN(UniqueFd score, sys::Open("/proc/self/oom_score_adj", O_WRONLY));
  ATOLL_TRY(sys::WriteAll(score.get(), "0"));
  // Unreadable from inside while it becomes the sandbox's root (CVE-2016-9962). execve of a program
  // that the caller may not read keeps it so.
  StayUndumpable();
  if (::syscall(SYS_setns, user_namespace, CLONE_NEWUSER, 0, 0, 0, pass) != 0) {
    return FailSys("setns user");
  }
  if (::setgroups(0, nullptr) != 0) return FailSys("setgroups");
  if (::setresgid(0, 0, 0) != 0) return FailSys("setresgid 0");
  if (::setresuid(0, 0, 0) != 0) return FailSys("setresuid 0");
  // Each of these calls has made it readable again.
  StayUndumpable();
  // The entry has filled every set, the bounding set too (user_namespaces(7)).
  if (sysctls >= 0) ATOLL_TRY(SealNamespaceLimits(sysctls));
  ATOLL_TRY(SetCapabilities(capabilities, more));
  return score;
}

// Limits of what the kernel counts by user. A user namespace takes its creator's limits for all its
// users together, and its processes inherit them. POSIX timers count as queued signals too. The
// memory of all three is charged to the sandbox besides. The last two are the kernel's own
// defaults.
Status LimitUsers() {
  constexpr struct {
    __rlimit_resource resource;
    rlim_t limit;
  } kLimits[] = {{RLIMIT_SIGPENDING, 16384}, {RLIMIT_MSGQUEUE, 819200}, {RLIMIT_MEMLOCK, 8 << 20}};
  for (const auto& [resource, limit] : kLimits) {
    ATOLL_TRY(LimitResource(resource, limit));
  }
  return {};
}

Status LimitProcess(uint64_t nofile) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailSys("PR_SET_NO_NEW_PRIVS");
  // 1 is the kernel's value for "not even by a pipe" (call_checks.cc keeps it so).
  const rlimit no_core{1, 1};
  if (::setrlimit(RLIMIT_CORE, &no_core) != 0) return FailSys("setrlimit CORE");
  // The classic soft limit, so that programs that loop over all descriptors stay quick. The hard
  // limit is the host's.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("getrlimit NOFILE");
  files.rlim_max = std::min<rlim_t>(files.rlim_max, 1U << 20);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 16384);
  if (nofile != 0) files = {nofile, nofile};
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("setrlimit NOFILE");
  ::umask(022);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal = 1; signal < NSIG; ++signal) {
    [[maybe_unused]] const auto before = ::signal(signal, SIG_DFL);
  }
  return {};
}

Result<int> PlaceDescriptors(const ExecdDescriptors& from) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return FailSys("open /dev/null");
  std::vector<DescriptorMove> moves = {
      {from.program, kKeptAbove},
      {null.get(), 0},
      {null.get(), 1},
      {null.get(), 2},
      {from.gate, wire::kExecdGateFd},
      {from.control, wire::kExecdControlFd},
      {from.listener, wire::kExecdListenFd},
      {from.commands, wire::kExecdCgroupFd},
      {from.score, wire::kExecdScoreFd},
  };
  int next = wire::kExecdFirstTasksFd;
  for (int tasks : from.command_tasks) moves.push_back({tasks, next++});
  int account = wire::kExecdAccountsFd;
  for (int file : from.accounts) moves.push_back({file, account++});
  ATOLL_TRY(MoveDescriptors(moves));
  return moves.front().from;
}

void ExecuteFirst(int program, const char* name, const char* option) {
  char* const argv[] = {const_cast<char*>(name), const_cast<char*>(option), nullptr};
  char* const envp[] = {nullptr};
  // Linux 3.19: executes without a path, so that nothing in the sandbox leads to the program's
  // file. /proc/1/exe is a sealed memfd that nobody in there may read (CVE-2019-5736).
  ::syscall(SYS_execveat, program, "", argv, envp, AT_EMPTY_PATH);
}

}  // namespace atl::spawner
