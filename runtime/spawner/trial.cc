#include "runtime/spawner/trial.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "cgroup/host.h"
#include "cgroup/tree.h"
#include "runtime/base/move_descriptors.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/execute.h"
#include "runtime/spawner/kernel/worker.h"

namespace atl::spawner {
namespace {

constexpr unsigned kTrialSeconds = 5;
constexpr unsigned kProgramSeconds = 2;

std::string Ending(int status) {
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

// Each of our programs refuses an unknown flag with the exit status `expected`. A file that is cut
// off, built for another machine, or another program does something else.
Status TryProgram(const std::string& path, int expected) {
  ATOLL_ASSIGN(const pid_t pid, StartWorker({.name = "atoll-trial"}, {}, [&] {
                 const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
                 std::array<DescriptorMove, 3> moves{{{null, 0}, {null, 1}, {null, 2}}};
                 if (!MoveDescriptors(moves)) ::_exit(125);
                 ::alarm(kProgramSeconds);  // execve(2) keeps the alarm running
                 Execute(path, {"--trial"}, -1);
               }));
  int status = 0;
  if (TEMP_FAILURE_RETRY(::waitpid(pid, &status, 0)) < 0) return FailSys("waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == expected) return {};
  return Fail(Code::kFailedPrecondition, path + " " + Ending(status) +
                                             " when it was tried: "
                                             "install it anew, of the same build as the spawner");
}

}  // namespace

Result<Trial> StartTrial(const Config& config, int host_mounts) {
  ATOLL_ASSIGN(sys::Pipe said, sys::MakePipe());
  // The program may leave processes that could still write.
  ::fcntl(said.read.get(), F_SETFL, O_NONBLOCK);
  ATOLL_ASSIGN(const pid_t pid,
               StartWorker({.name = "atoll-trial"}, {host_mounts, said.write.get()}, [&] {
                 if (!ToHostMounts(host_mounts)) ::_exit(1);
                 std::vector<std::string> arguments = config.arguments;
                 arguments.insert(arguments.end(), {"--trial", "yes", "--ready-fd", "3"});
                 ::alarm(kTrialSeconds);
                 Execute(config.program, arguments, said.write.get());
               }));
  return Trial{pid, std::move(said.read)};
}

Status JudgeTrial(const Config& config, const Trial& trial, int status) {
  char byte;
  const bool said = TEMP_FAILURE_RETRY(::read(trial.said.get(), &byte, 1)) == 1;
  if (said && WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Fail(Code::kFailedPrecondition,
              config.program + " " + Ending(status) +
                  " when it was tried (what it said stands before this): install it anew");
}

Status Try(const Config& config) {
  ATOLL_ASSIGN(const cgroup::Host cgroups, cgroup::DetectHost());
  ATOLL_ASSIGN(const std::string base, cgroup::FindBase(cgroups, config.cgroup));
  for (const std::string& path : {base, config.data_dir + "/store", config.run_dir}) {
    ATOLL_TRY(sys::Open(path, O_RDONLY | O_DIRECTORY));
  }
  ATOLL_TRY(TryProgram(config.execd, 2));
  ATOLL_TRY(TryProgram(config.unpack, 1));
  if (!config.runsc.empty()) ATOLL_TRY(TryProgram(config.guard, 2));
  if (!config.vm_dir.empty()) ATOLL_TRY(TryProgram(config.vm_guard, 2));
  if (config.ready_fd >= 0) ATOLL_TRY(sys::WriteAll(config.ready_fd, "+"));
  return {};
}

}  // namespace atl::spawner
