#include "runtime/spawner/kernel/worker.h"

#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::spawner {
namespace {

constexpr pid_t kNobody = -1;
// The parent that this process ends with, as getppid(2) returns it: 0 across pid namespaces.
pid_t g_parent = kNobody;

Result<pid_t> Fork(const Worker& worker) {
  pid_t pid = 0;
  if (worker.namespaces == 0 && worker.cgroup < 0) {
    // The C library's fork, because the janitor has threads.
    pid = ::fork();
  } else {
    clone_args args{};
    args.flags = worker.namespaces;
    args.exit_signal = SIGCHLD;
    if (worker.cgroup >= 0) {
      args.flags |= CLONE_INTO_CGROUP;
      args.cgroup = static_cast<uint64_t>(worker.cgroup);
    }
    pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
  }
  if (pid < 0) return FailSys(std::string("fork ") + worker.name);
  return pid;
}

void CloseAllBut(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned from = STDERR_FILENO + 1;
  for (const int fd : keep) {
    const auto number = static_cast<unsigned>(fd);
    if (fd < 0 || number < from) continue;
    if (number > from && ::close_range(from, number - 1, 0) != 0) ::_exit(125);
    from = number + 1;
  }
  if (::close_range(from, ~0u, 0) != 0) ::_exit(125);
}

}  // namespace

Result<pid_t> StartWorker(const Worker& worker, std::vector<int> keep,
                          const std::function<void()>& work) {
  const pid_t parent = ::getpid();
  ATOLL_ASSIGN(const pid_t pid, Fork(worker));
  if (pid != 0) return pid;
  CloseAllBut(std::move(keep));
  ::prctl(PR_SET_NAME, worker.name);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool sees_parent = (worker.namespaces & CLONE_NEWPID) == 0;
  g_parent = worker.outlives ? kNobody : sees_parent ? parent : 0;
  EndWithParent();
  if (worker.nice != 0) ::setpriority(PRIO_PROCESS, 0, worker.nice);
  work();
  ::_exit(0);
}

void EndWithParent() {
  if (g_parent == kNobody) return;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != g_parent) ::_exit(125);
}

void StayUndumpable() {
  ::prctl(PR_SET_DUMPABLE, 0);
}

bool AwaitEnd(pid_t child, int patience_ms) {
  if (const auto pidfd = sys::PidfdOpen(child)) {
    pollfd ended{pidfd->get(), POLLIN, 0};
    [[maybe_unused]] const auto n = TEMP_FAILURE_RETRY(::poll(&ended, 1, patience_ms));
  }
  int status;
  return ::waitpid(child, &status, WNOHANG) != 0;
}

}  // namespace atl::spawner
