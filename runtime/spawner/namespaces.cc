#include "runtime/spawner/namespaces.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/config.h"

namespace atl::spawner {
namespace {

constexpr const char* kNamespaceLimits[] = {
    "max_cgroup_namespaces", "max_ipc_namespaces",  "max_mnt_namespaces",  "max_net_namespaces",
    "max_pid_namespaces",    "max_time_namespaces", "max_user_namespaces", "max_uts_namespaces"};

std::string ProcPath(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

void KillAndReap(pid_t pid) {
  ::kill(pid, SIGKILL);
  int status;
  [[maybe_unused]] const auto reaped = TEMP_FAILURE_RETRY(::waitpid(pid, &status, 0));
}

// The other end says "go on" with one byte; end of file means that it died.
bool AwaitByte(int fd) {
  char byte;
  return TEMP_FAILURE_RETRY(::read(fd, &byte, 1)) == 1;
}
bool SendByte(int fd) {
  return ::write(fd, "", 1) == 1;
}

// In the new user namespace, as its root: /proc/sys/user is that of the reader's own namespace, and
// writable to CAP_SYS_RESOURCE in it, which no process of a sandbox has (namespaces(7)).
bool SealNamespaceLimits() {
  const auto dir = sys::Open("/proc/sys/user", O_RDONLY | O_DIRECTORY);
  if (!dir) return false;
  for (const char* file : kNamespaceLimits) {
    if (!sys::WriteFileAt(dir->get(), file, "0")) return false;
  }
  return true;
}

[[noreturn]] void UserNamespaceChild(int in, int out, bool sealed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!AwaitByte(in)) ::_exit(1);
  if (sealed && !SealNamespaceLimits()) ::_exit(1);
  if (!SendByte(out)) ::_exit(1);
  for (;;) ::pause();
}

[[noreturn]] void CgroupNamespaceChild(const std::vector<UniqueFd>& tasks, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const UniqueFd& file : tasks) {
    if (!sys::WriteAll(file.get(), "0")) ::_exit(1);
  }
  if (::unshare(CLONE_NEWCGROUP) != 0 || !SendByte(out)) ::_exit(1);
  for (;;) ::pause();
}

}  // namespace

Result<pid_t> Clone(uint64_t flags, int cgroup) {
  clone_args args{};
  args.flags = flags;
  args.exit_signal = SIGCHLD;
  if (cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(cgroup);
  }
  const long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid < 0) return FailSys("clone3");
  return static_cast<pid_t>(pid);
}

Status WriteIdMaps(pid_t pid, IdMap map) {
  const std::string line = std::to_string(map.inside) + " " + std::to_string(map.outside) + " " +
                           std::to_string(kIdsPerSandbox);
  ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, ProcPath(pid, "uid_map"), line));
  return sys::WriteFileAt(AT_FDCWD, ProcPath(pid, "gid_map"), line);
}

Result<UniqueFd> MakeUserNamespace(IdMap map, bool sealed) {
  ATOLL_ASSIGN(sys::Pipe go, sys::MakePipe());
  ATOLL_ASSIGN(sys::Pipe done, sys::MakePipe());
  ATOLL_ASSIGN(const pid_t pid, Clone(CLONE_NEWUSER, -1));
  if (pid == 0) {
    go.write.reset();
    done.read.reset();
    UserNamespaceChild(go.read.get(), done.write.get(), sealed);
  }
  const auto reap = Cleanup([&] { KillAndReap(pid); });
  done.write.reset();
  ATOLL_TRY(WriteIdMaps(pid, map));
  if (!SendByte(go.write.get()) || !AwaitByte(done.read.get())) {
    return Fail(Code::kInternal, "user namespace: cannot set its limits in /proc/sys/user");
  }
  return sys::Open(ProcPath(pid, "ns/user"), O_RDONLY);
}

Result<UniqueFd> MakeCgroupNamespace(int directory, const std::vector<UniqueFd>& tasks) {
  ATOLL_ASSIGN(sys::Pipe done, sys::MakePipe());
  // The new namespace's root is the group of the process that unshares; CLONE_NEWCGROUP together
  // with CLONE_INTO_CGROUP would take the parent's.
  ATOLL_ASSIGN(const pid_t pid, Clone(0, directory));
  if (pid == 0) CgroupNamespaceChild(tasks, done.write.get());
  const auto reap = Cleanup([&] { KillAndReap(pid); });
  done.write.reset();
  if (!AwaitByte(done.read.get())) return Fail(Code::kInternal, "cgroup namespace: unshare failed");
  return sys::Open(ProcPath(pid, "ns/cgroup"), O_RDONLY);
}

}  // namespace atl::spawner
