#include "runtime/spawner/kernel/namespaces.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/vfork_clone.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {
namespace {

constexpr const char* kNamespaceLimits[] = {
    "user/max_cgroup_namespaces", "user/max_ipc_namespaces", "user/max_mnt_namespaces",
    "user/max_net_namespaces",    "user/max_pid_namespaces", "user/max_time_namespaces",
    "user/max_user_namespaces",   "user/max_uts_namespaces"};

std::string ProcPath(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

std::string LineOf(IdMap map) {
  return std::to_string(map.inside) + " " + std::to_string(map.outside) + " " +
         std::to_string(kIdsPerSandbox);
}

Status WriteIdMaps(pid_t pid, const std::string& uid_map, const std::string& gid_map) {
  ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, ProcPath(pid, "uid_map"), uid_map));
  return sys::WriteFileAt(AT_FDCWD, ProcPath(pid, "gid_map"), gid_map);
}

// Reaps a child that is about to end. A child that takes longer does no harm, because it never
// returns from the kernel to the memory that it shares with this process.
void Reap(pid_t pid) {
  [[maybe_unused]] const bool ended = AwaitEnd(pid, 1000);
}

// Keeps root's rights all the time. Some hosts let nobody else make a user namespace, and its maps
// must be written by root.
Result<pid_t> StartIdleOwnedBy(uid_t owner) {
  const int before = ::prctl(PR_GET_SECUREBITS);
  if (before < 0) return FailSys("PR_GET_SECUREBITS");
  if (::prctl(PR_SET_SECUREBITS, before | SECBIT_NO_SETUID_FIXUP) != 0) {
    return FailSys("PR_SET_SECUREBITS");
  }
  const auto restore = Cleanup([before] {
    ::prctl(PR_SET_SECUREBITS, before);
    StayUndumpable();
    EndWithParent();
  });
  constexpr uid_t kSame = static_cast<uid_t>(-1);
  const uid_t self = ::geteuid();
  if (::setresuid(kSame, owner, kSame) != 0) {
    return FailSys("setresuid, effective " + std::to_string(owner));
  }
  auto pid = StartIdle(CLONE_NEWUSER);
  ATOLL_CHECK(::setresuid(kSame, self, kSame) == 0);
  return pid;
}

struct CgroupChild {
  const std::vector<UniqueFd>* tasks;
  int fd = -1;
  int error = 0;
};

struct NetworkChild {
  int user_namespace = -1;
  int fd = -1;
  int error = 0;
};

// Shares the table of descriptors: the parent has what this child opens.
void RunNetworkChild(void* argument) {
  auto* child = static_cast<NetworkChild*>(argument);
  if (::setns(child->user_namespace, CLONE_NEWUSER) != 0 || ::unshare(CLONE_NEWNET) != 0) {
    child->error = errno;
    ::_exit(0);
  }
  child->fd = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (child->fd < 0) child->error = errno;
  ::_exit(0);
}

// Shares the table of descriptors: the parent has what this child opens.
void RunCgroupChild(void* argument) {
  auto* child = static_cast<CgroupChild*>(argument);
  for (const UniqueFd& file : *child->tasks) {
    if (::write(file.get(), "0", 1) != 1) child->error = errno;
  }
  if (child->error == 0 && ::unshare(CLONE_NEWCGROUP) != 0) child->error = errno;
  if (child->error == 0) {
    child->fd = ::open("/proc/self/ns/cgroup", O_RDONLY | O_CLOEXEC);
    if (child->fd < 0) child->error = errno;
  }
  ::_exit(0);
}

}  // namespace

Status WriteIdMaps(pid_t pid, IdMap map) {
  const std::string line = LineOf(map);
  return WriteIdMaps(pid, line, line);
}

Result<UniqueFd> MakeUserNamespace(IdMap map) {
  const std::string line = LineOf(map);
  return MakeUserNamespace(map.outside, line, line);
}

Result<UniqueFd> MakeUserNamespace(uid_t owner, const std::string& uid_map,
                                   const std::string& gid_map) {
  ATOLL_ASSIGN(const pid_t pid, StartIdleOwnedBy(owner));
  const auto end = Cleanup([pid] {
    ::kill(pid, SIGKILL);
    Reap(pid);
  });
  ATOLL_TRY(WriteIdMaps(pid, uid_map, gid_map));
  return sys::Open(ProcPath(pid, "ns/user"), O_RDONLY);
}

Result<UniqueFd> MakeNetworkNamespace(int user_namespace) {
  NetworkChild child{.user_namespace = user_namespace};
  ATOLL_ASSIGN(const pid_t pid, Vfork(CLONE_FILES, -1, RunNetworkChild, &child));
  Reap(pid);
  // The child changed its ids, which makes the memory that it borrowed readable again.
  StayUndumpable();
  if (child.error != 0) return Fail(SysError("make a network namespace", child.error));
  if (child.fd < 0) return Fail(Code::kInternal, "make a network namespace: the child died");
  return UniqueFd(child.fd);
}

Status SealNamespaceLimits(int sysctls) {
  for (const char* file : kNamespaceLimits) ATOLL_TRY(sys::WriteFileAt(sysctls, file, "0"));
  return {};
}

Result<UniqueFd> MakeCgroupNamespace(int directory, const std::vector<UniqueFd>& tasks) {
  CgroupChild child{.tasks = &tasks};
  // The new namespace's root is the cgroup of the process that unshares. CLONE_NEWCGROUP together
  // with CLONE_INTO_CGROUP would take the parent's.
  ATOLL_ASSIGN(const pid_t pid, Vfork(CLONE_FILES, directory, RunCgroupChild, &child));
  Reap(pid);
  if (child.error != 0) return Fail(SysError("make a cgroup namespace", child.error));
  if (child.fd < 0) return Fail(Code::kInternal, "make a cgroup namespace: the child died");
  return UniqueFd(child.fd);
}

}  // namespace atl::spawner
