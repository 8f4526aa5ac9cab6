#include "runtime/spawner/kernel/execute.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include "runtime/base/log.h"
#include "runtime/base/move_descriptors.h"

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
  std::array<DescriptorMove, 1> moves{{{kept, 3}}};
  const Status moved = kept < 0 ? Status() : MoveDescriptors(moves);
  if (!moved) {
    LogLine(LogLevel::kError, "cannot execute").Add(moved.error());
    ::_exit(127);
  }
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  LogLine(LogLevel::kError, "cannot execute").Add(SysError("execv " + program));
  ::_exit(127);
}

}  // namespace atl::spawner
