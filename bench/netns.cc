#include "bench/netns.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "bench/process.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

Status Run(const std::string& command) {
  std::vector<std::string> argv;
  for (size_t at = 0; at < command.size();) {
    const size_t end = std::min(command.find(' ', at), command.size());
    argv.push_back(command.substr(at, end - at));
    at = end + 1;
  }
  ATOLL_ASSIGN(const pid_t pid, Spawn(argv, STDERR_FILENO, STDERR_FILENO));
  return Await(pid, command);
}

}  // namespace

Result<UniqueFd> OwnNetns() {
  return sys::Open("/proc/thread-self/ns/net", O_RDONLY);
}

Result<UniqueFd> NewNetns() {
  if (::unshare(CLONE_NEWNET) != 0) return FailSys("unshare CLONE_NEWNET");
  ATOLL_TRY(Run("ip link set lo up"));
  return OwnNetns();
}

Status EnterNetns(const UniqueFd& netns) {
  if (::setns(netns.get(), CLONE_NEWNET) != 0) return FailSys("setns");
  return {};
}

Status RunAll(const std::vector<std::string>& commands) {
  for (const std::string& command : commands) ATOLL_TRY(Run(command));
  return {};
}

std::string NetnsPath(const UniqueFd& netns) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(netns.get());
}

}  // namespace atl::bench
