#include "runtime/spawner/execute.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "runtime/base/log.h"

namespace atl::spawner {

Status ToHostMounts(int host_mounts) {
  if (::setns(host_mounts, CLONE_NEWNS) != 0) return FailSys("setns mount");
  return {};
}

void Execute(const std::string& program, const std::vector<std::string>& arguments, int kept) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // What is above is close-on-exec.
  if (kept == 3) {
    ::fcntl(kept, F_SETFD, 0);
  } else if (kept >= 0) {
    ::dup2(kept, 3);
  }
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  LogLine(LogLevel::kError, "cannot execute").Add(SysError("execv " + program));
  ::_exit(127);
}

}  // namespace atl::spawner
