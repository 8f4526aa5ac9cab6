#include "runtime/guard/vm/processes.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "runtime/guard/first.h"
#include "runtime/guard/vm/monitor_filter.h"
#include "runtime/wire/machine.h"

namespace atl::guard {
namespace {

constexpr int kCannotExecute = 127;

Status Become(const Process& process) {
  if (::chroot(wire::kMachineRoot) != 0 || ::chdir("/") != 0) {
    return FailSys(std::string("chroot ") + wire::kMachineRoot);
  }
  if (!process.monitor) return KeepCapabilities(process.capabilities);
  if (::setgroups(0, nullptr) != 0) return FailSys("setgroups");
  if (::setresgid(kMonitorId, kMonitorId, kMonitorId) != 0) return FailSys("setresgid");
  // The capabilities go with the last id of root.
  if (::setresuid(kMonitorId, kMonitorId, kMonitorId) != 0) return FailSys("setresuid");
  return {};
}

[[noreturn]] void Execute(const Process& process) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(process.console, 1);
  ::dup2(process.console, 2);
  const Status became = Become(process);
  if (!became) {
    ::dprintf(2, "%s: %s\n", process.program.c_str(), became.error().message().c_str());
    ::_exit(kCannotExecute);
  }
  for (const int fd : process.descriptors) ::fcntl(fd, F_SETFD, 0);
  std::vector<char*> argv = {const_cast<char*>(process.program.c_str())};
  for (const std::string& argument : process.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  char path[] = "PATH=/nonexistent";
  char* const envp[] = {path, nullptr};
  if (process.monitor) {
    const Status executed = ExecuteMonitor(argv.data(), envp);
    ::dprintf(2, "%s: %s\n", argv[0], executed.error().message().c_str());
  } else {
    ::execve(argv[0], argv.data(), envp);
    ::dprintf(2, "%s: %s\n", argv[0], ::strerrordesc_np(errno));
  }
  ::_exit(kCannotExecute);
}

}  // namespace

Result<pid_t> Start(const Process& process) {
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork");
  if (pid == 0) Execute(process);
  return pid;
}

}  // namespace atl::guard
