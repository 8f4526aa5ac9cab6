#include "bench/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "bench/clock.h"
#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {
namespace {

constexpr size_t kMaxOutput = 64 << 10;

int Redirect(posix_spawn_file_actions_t* actions, int from, int to) {
  if (from >= 0) return ::posix_spawn_file_actions_adddup2(actions, from, to);
  return ::posix_spawn_file_actions_addopen(actions, to, "/dev/null", O_RDWR, 0);
}

}  // namespace

Result<pid_t> Spawn(const std::vector<std::string>& argv, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  int error = Redirect(&actions, -1, 0);
  if (error == 0) error = Redirect(&actions, out, 1);
  if (error == 0) error = Redirect(&actions, err, 2);
  pid_t pid = -1;
  if (error == 0) {
    error = ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Fail(SysError("spawn " + argv[0], error));
  return pid;
}

Status Await(pid_t pid, const std::string& what) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return FailSys("waitpid " + what);
  }
  if (status == 0) return {};
  const int number = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return Fail(Code::kInternal, what + " ended with " + std::to_string(number));
}

Result<RunMicros> RunTimed(const std::vector<std::string>& argv, int err) {
  ATOLL_ASSIGN(sys::Pipe out, sys::MakePipe());
  RunMicros micros;
  const int64_t start = NowMicros();
  ATOLL_ASSIGN(const pid_t pid, Spawn(argv, out.write.get(), err));
  out.write.reset();
  char byte = 0;
  const ssize_t got = ::read(out.read.get(), &byte, 1);
  micros.first = NowMicros() - start;
  auto rest = sys::ReadAll(out.read.get(), kMaxOutput);
  ATOLL_TRY(Await(pid, argv[0]));
  micros.exit = NowMicros() - start;
  if (got != 1 || byte != 'h' || !rest || *rest != "i\n") {
    return Fail(Code::kInternal, argv[0] + " did not print hi");
  }
  return micros;
}

}  // namespace atl::bench
