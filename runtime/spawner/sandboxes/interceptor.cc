#include "runtime/spawner/sandboxes/interceptor.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/move_descriptors.h"
#include "runtime/base/resource_limit.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/execute.h"
#include "runtime/spawner/kernel/worker.h"

namespace atl::spawner {
namespace {

// netpolicy/intercept/line.h
constexpr int kLineFd = 3;
// 256 connections with three descriptors each, and the program's own.
constexpr rlim_t kMaxFiles = 1024;

// A close of anything else might block the spawner.
Status CheckLine(int line) {
  int domain = 0;
  socklen_t size = sizeof domain;
  if (::getsockopt(line, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX) {
    return {};
  }
  return Fail(Code::kPermissionDenied, "interceptor: its line is no Unix socket");
}

Status DropPrivileges(const Config& config) {
  ATOLL_TRY(LimitResource(RLIMIT_NOFILE, kMaxFiles));
  for (int capability = 0; ::prctl(PR_CAPBSET_DROP, capability) == 0; ++capability) {
  }
  if (::setgroups(0, nullptr) != 0) return FailSys("setgroups");
  if (::setresgid(config.daemon_gid, config.daemon_gid, config.daemon_gid) != 0) {
    return FailSys("setresgid");
  }
  if (::setresuid(config.daemon_uid, config.daemon_uid, config.daemon_uid) != 0) {
    return FailSys("setresuid");
  }
  // The memory is still the spawner's.
  StayUndumpable();
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2]{};
  if (::syscall(SYS_capset, &header, none) != 0) return FailSys("capset");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailSys("PR_SET_NO_NEW_PRIVS");
  return {};
}

Status Begin(const Host& host, const std::vector<UniqueFd>& tasks) {
  for (const UniqueFd& group : tasks) {
    if (::write(group.get(), "0", 1) != 1) return FailSys("enter a cgroup");
  }
  ATOLL_TRY(ToHostMounts(host.host_mounts));
  if (::setsid() < 0) return FailSys("setsid");
  return DropPrivileges(host.config);
}

[[noreturn]] void Child(const Host& host, const std::vector<UniqueFd>& tasks, int line) {
  Status ready = Begin(host, tasks);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<DescriptorMove> moves = {{null.get(), STDIN_FILENO}, {line, kLineFd}};
  if (ready) ready = MoveDescriptors(moves);
  if (ready) {
    char name[] = "atoll-intercept";
    char* const argv[] = {name, nullptr};
    char* const envp[] = {nullptr};
    ::execve(host.config.intercept.c_str(), argv, envp);
    ready = FailSys("execve " + host.config.intercept);
  }
  LogLine(LogLevel::kError, "cannot start an interceptor").Add(ready.error());
  ::_exit(1);
}

}  // namespace

Result<UniqueFd> StartInterceptor(const Host& host, uint32_t slot, int line) {
  ATOLL_TRY(CheckLine(line));
  const std::string group = SlotGroup(slot);
  ATOLL_TRY(host.cgroups.CreateIntercept(group));
  ATOLL_ASSIGN(const UniqueFd leaf, host.cgroups.OpenDir(group, "intercept"));
  ATOLL_ASSIGN(const std::vector<UniqueFd> tasks, host.cgroups.OpenInterceptTasks(group));
  std::vector<int> keep = {line, host.host_mounts};
  for (const UniqueFd& each : tasks) keep.push_back(each.get());
  ATOLL_ASSIGN(const pid_t pid,
               StartWorker({.name = "atoll-intercept", .cgroup = leaf.get(), .outlives = true},
                           keep, [&] { Child(host, tasks, line); }));
  return sys::PidfdOpen(pid);
}

}  // namespace atl::spawner
