#include "tools/doctor/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/worker.h"

namespace atl::doctor {
namespace {

constexpr size_t kMaxMessage = 4096;

}  // namespace

Status RunInNamespaces(uint64_t flags, const std::function<Status()>& probe) {
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  ATOLL_ASSIGN(
      const pid_t pid,
      spawner::StartWorker({.name = "atoll-doctor", .namespaces = flags}, {pipe.write.get()}, [&] {
        const Status found = probe();
        if (found) return;
        [[maybe_unused]] const Status told =
            sys::WriteAll(pipe.write.get(), found.error().message().substr(0, kMaxMessage));
        _exit(1);
      }));
  pipe.write.reset();
  const auto message = sys::ReadAll(pipe.read.get(), kMaxMessage);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return FailSys("waitpid");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Fail(Code::kUnavailable, message && !message->empty() ? *message : "the probe died");
}

}  // namespace atl::doctor
