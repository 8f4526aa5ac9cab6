#include "runtime/spawner/janitor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/projects.h"

namespace atl::spawner {
namespace {

void EmptyTrash(int trash) {
  auto names = sys::ListDir(trash);
  if (!names) {
    LogLine(LogLevel::kError, "cannot list the trash").Add(names.error());
    return;
  }
  for (const std::string& name : *names) {
    // Before, not after: an id with nothing charged to it is given to the slot's next upper.
    if (auto top = sys::OpenAt(trash, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) {
      ForgetProject(top->get());
    }
    const Status removed = sys::RemoveTree(trash, name);
    if (!removed) LogLine(LogLevel::kError, "cannot delete").Add("name", name).Add(removed.error());
  }
}

[[noreturn]] void Run(int trash, int wake) {
  ::prctl(PR_SET_NAME, "atoll-janitor");
  // The next spawner's janitor goes on: two of them in one directory would trip over each other.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpriority(PRIO_PROCESS, 0, 10);  // never ahead of a build
  for (;;) {
    EmptyTrash(trash);
    char bytes[256];
    const ssize_t n = TEMP_FAILURE_RETRY(::read(wake, bytes, sizeof bytes));
    if (n <= 0) break;
  }
  EmptyTrash(trash);
  ::_exit(0);
}

}  // namespace

Result<Janitor> Janitor::Start(int store) {
  ATOLL_TRY(sys::EnsureDirAt(store, "trash", 0700));
  ATOLL_ASSIGN(UniqueFd trash, sys::OpenAt(store, "trash", O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(sys::Pipe wake, sys::MakePipe());
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork janitor");
  if (pid == 0) {
    wake.write.reset();
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    Run(trash.get(), wake.read.get());
  }
  // A full pipe means that the janitor has enough to do and will look again anyway.
  ::fcntl(wake.write.get(), F_SETFL, O_NONBLOCK);
  return Janitor(pid, std::move(wake.write));
}

void Janitor::Finish() {
  wake_.reset();
  int status;
  [[maybe_unused]] const auto reaped = TEMP_FAILURE_RETRY(::waitpid(pid_, &status, 0));
}

Status Janitor::Discard(int store, const std::string& path) {
  const std::string target =
      "trash/" + std::to_string(SystemClock().BootMicros()) + "-" + std::to_string(counter_++);
  if (::renameat(store, path.c_str(), store, target.c_str()) != 0) {
    if (errno == ENOENT) return {};
    return FailSys("rename " + path + " to " + target);
  }
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), "", 1);
  return {};
}

}  // namespace atl::spawner
