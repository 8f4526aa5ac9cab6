#include "tests/priv/unpack_launcher.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/base/sys.h"
#include "runtime/wire/unpack.h"

namespace atl::images {
namespace {

[[noreturn]] void Child(const UnpackRun& run, int ready, int report) {
  char go;
  if (::read(ready, &go, 1) != 1) _exit(120);
  if (run.own_user_namespace &&
      (::setgroups(0, nullptr) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0)) {
    _exit(121);
  }
  if (run.no_new_privs && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(122);
  // High numbers first, so that no dup2 below closes a descriptor that is still needed.
  const int input = ::fcntl(run.input, F_DUPFD, 20);
  const int output = ::fcntl(run.output, F_DUPFD, 20);
  const int pipe = ::fcntl(report, F_DUPFD, 20);
  ::dup2(input, wire::kUnpackInputFd);
  ::dup2(output, wire::kUnpackOutputFd);
  ::dup2(pipe, wire::kUnpackReportFd);
  // The launcher leaves 20 and up open on purpose: the unpacker has to close what it was not meant
  // to get.
  std::vector<char*> argv;
  std::string mode = run.mode;
  std::string name = "atoll-unpack";
  std::vector<std::string> limits = run.limits;
  argv.push_back(name.data());
  argv.push_back(mode.data());
  for (std::string& limit : limits) argv.push_back(limit.data());
  argv.push_back(nullptr);
  char* environment[] = {nullptr};
  ::execve(run.program != nullptr ? run.program : std::getenv("ATOLL_UNPACK"), argv.data(),
           environment);
  _exit(123);
}

}  // namespace

Result<UnpackOutcome> RunUnpack(const UnpackRun& run) {
  if (std::getenv("ATOLL_UNPACK") == nullptr) {
    return Fail(Code::kFailedPrecondition, "ATOLL_UNPACK must name the atoll-unpack to test");
  }
  ATOLL_ASSIGN(sys::Pipe ready, sys::MakePipe());
  ATOLL_ASSIGN(sys::Pipe report, sys::MakePipe());
  clone_args args{};
  args.flags =
      CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  if (run.own_user_namespace) args.flags |= CLONE_NEWUSER;
  args.exit_signal = SIGCHLD;
  const long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid < 0) return FailSys("clone3");
  if (pid == 0) Child(run, ready.read.get(), report.write.get());
  report.write.reset();
  if (run.own_user_namespace) {
    const std::string map = "0 " + std::to_string(kLayerIdBase) + " 65536\n";
    const std::string proc = "/proc/" + std::to_string(pid);
    ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, proc + "/uid_map", map));
    ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, proc + "/gid_map", map));
  }
  ATOLL_TRY(sys::WriteAll(ready.write.get(), "x"));
  UnpackOutcome outcome;
  ATOLL_ASSIGN(outcome.report, sys::ReadAll(report.read.get(), 64 << 10));
  if (::waitpid(static_cast<pid_t>(pid), &outcome.wait_status, 0) < 0) return FailSys("waitpid");
  return outcome;
}

}  // namespace atl::images
