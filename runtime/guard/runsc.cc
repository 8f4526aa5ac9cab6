#include "runtime/guard/runsc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/guard.h"

namespace atl::guard {
namespace {

constexpr const char kPidFile[] = "/guard/pid";
constexpr const char kLog[] = "/guard/log";
constexpr size_t kMaxLog = 64 << 10;

// The last line of the log that is worth telling.
std::string LastLine() {
  auto log = sys::ReadFileAt(AT_FDCWD, kLog, kMaxLog);
  if (!log) return "it said nothing";
  while (log->ends_with('\n')) log->pop_back();
  const std::string line = log->substr(log->rfind('\n') + 1);
  return line.empty() ? "it said nothing" : line.substr(0, 1000);
}

[[noreturn]] void Execute(const std::vector<std::string>& arguments) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int log = ::open(kLog, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log >= 0) {
    ::dup2(log, 1);
    ::dup2(log, 2);
  }
  ::fcntl(wire::kExecdControlFd, F_SETFD, 0);  // runsc hands it to the sandbox
  std::vector<char*> argv;
  std::string name = "runsc";
  argv.push_back(name.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  char path[] = "PATH=/nonexistent";
  char* const envp[] = {path, nullptr};
  ::syscall(SYS_execveat, wire::kGuardRuntimeFd, "", argv.data(), envp, AT_EMPTY_PATH);
  ::_exit(127);
}

// The flags of runsc, and the verb with its own.
std::vector<std::string> RunscArguments() {
  const std::string control = std::to_string(wire::kExecdControlFd);
  return {"--root=/guard/state", "--log=/guard/log",
          // The slot's group limits all of it.
          "--ignore-cgroups", "--platform=systrap", "--network=sandbox",
          // execd's socket, and the sandbox's own ones in its root.
          "--host-uds=create",
          // The root is an overlay already. What is written must be in its upper directory.
          "--overlay2=none", "run", "--detach", std::string("--pid-file=") + kPidFile,
          "--pass-fd=" + control + ":" + control, std::string("--bundle=") + wire::kGuardBundle,
          "sandbox"};
}

}  // namespace

Result<pid_t> StartSandbox() {
  const std::vector<std::string> arguments = RunscArguments();
  const pid_t runsc = ::fork();
  if (runsc < 0) return FailSys("fork");
  if (runsc == 0) Execute(arguments);
  int status = 0;
  if (TEMP_FAILURE_RETRY(::waitpid(runsc, &status, 0)) < 0) return FailSys("waitpid runsc");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Fail(Code::kUnavailable, "runsc: " + LastLine());
  }
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, kPidFile, 32));
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  if (pid <= 1) return Fail(Code::kInternal, "runsc: no process in its pid file");
  return pid;
}

}  // namespace atl::guard
