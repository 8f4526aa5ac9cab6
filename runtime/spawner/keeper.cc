#include "runtime/spawner/keeper.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/result.h"

namespace atl::spawner {
namespace {

// One that dies sooner than this after its start is given a pause: a crash loop must not eat a
// core.
constexpr int64_t kSoonUs = 2 * 1000 * 1000;
constexpr int kPauseMs = 1000;

// The arguments of a restart: whoever waited for the first one to be ready has had the answer, and
// the descriptor's number may be anything by now.
std::vector<char*> WithoutReadyFd(const std::vector<char*>& arguments) {
  std::vector<char*> rest;
  for (size_t i = 0; arguments[i] != nullptr; ++i) {
    if (std::string_view(arguments[i]) == "--ready-fd" && arguments[i + 1] != nullptr) {
      ++i;
      continue;
    }
    rest.push_back(arguments[i]);
  }
  rest.push_back(nullptr);
  return rest;
}

void CloseReadyFds(const std::vector<char*>& arguments) {
  // Only 0 to 2 and the ready descriptor are open: the daemon's others are close-on-exec.
  if (arguments.size() != WithoutReadyFd(arguments).size()) ::close_range(3, ~0U, 0);
}

}  // namespace

int Keep(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  for (;;) {
    const int64_t started = SystemClock().BootMicros();
    pid_t pid = -1;
    const int error =
        ::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ);
    if (error != 0) {
      LogLine(LogLevel::kError, "cannot start the spawner")
          .Add(SysError("posix_spawn /proc/self/exe", error));
      return 1;
    }
    CloseReadyFds(arguments);
    arguments = WithoutReadyFd(arguments);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0) {
      if (errno != EINTR) return 1;
    }
    const bool soon = SystemClock().BootMicros() - started < kSoonUs;
    // 0: told to stop. Others soon after the start: another one runs, or the configuration is bad;
    // trying again would not help.
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || soon)) return WEXITSTATUS(status);
    LogLine(LogLevel::kError, "the spawner died; starting another")
        .Add("pid", pid)
        .Add("wait_status", status);
    if (soon) ::poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace atl::spawner
