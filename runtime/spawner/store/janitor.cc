#include "runtime/spawner/store/janitor.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/store/trash.h"

namespace atl::spawner {
namespace {

// The kernel deletes mostly under the lock of one directory, so more threads than this help only
// where each waits for a disk.
constexpr size_t kThreads = 4;
// A daemon that is started meanwhile waits for our end (30 s, spawner_process.cc).
constexpr int kFinishPatienceMs = 20 * 1000;
constexpr int kAbandonPatienceMs = 1000;

// A build comes first, but the value is small: at 10, and with one thread, the janitor had a tenth
// of a core beside two busy sandboxes, and they made files faster than it could delete them.
constexpr int kNice = 5;

void Run(int directory, int wake) {
  Trash trash(directory, kThreads);
  for (;;) {
    trash.Look();
    char bytes[256];
    const ssize_t n = TEMP_FAILURE_RETRY(::read(wake, bytes, sizeof bytes));
    if (n <= 0) break;
  }
  trash.Look();
  trash.Finish();
}

}  // namespace

Result<Janitor> Janitor::Start(int store) {
  ATOLL_TRY(sys::EnsureDirAt(store, "trash", 0700));
  ATOLL_ASSIGN(UniqueFd trash, sys::OpenAt(store, "trash", O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(sys::Pipe wake, sys::MakePipe());
  // The janitor ends with us (and Abandon ends it when this process executes another program),
  // because the next spawner's janitor goes on, and two of them in one directory would disturb each
  // other.
  ATOLL_ASSIGN(const pid_t pid,
               StartWorker({.name = "atoll-janitor", .nice = kNice}, {trash.get(), wake.read.get()},
                           [&] { Run(trash.get(), wake.read.get()); }));
  // A full pipe means that the janitor has enough to do and will look again anyway.
  ::fcntl(wake.write.get(), F_SETFL, O_NONBLOCK);
  return Janitor(pid, std::move(wake.write));
}

void Janitor::Abandon() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  // A janitor in the middle of a huge file ends after it.
  [[maybe_unused]] const bool ended = AwaitEnd(pid_, kAbandonPatienceMs);
}

void Janitor::Finish() {
  wake_.reset();
  if (pid_ == 0 || !AwaitEnd(pid_, kFinishPatienceMs)) {
    LogLine(LogLevel::kWarning, "the trash is not empty yet; the next start continues");
  }
}

Status Janitor::Discard(int store, const std::string& path, const std::string& as) {
  const std::string unique =
      std::to_string(SystemClock().BootMicros()) + "-" + std::to_string(counter_++);
  std::string target = "trash/" + (as.empty() ? unique : as);
  if (::renameat2(store, path.c_str(), store, target.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == ENOENT) return {};
    if (errno != EEXIST || as.empty()) return FailSys("rename " + path + " to " + target);
    // The trash holds something under that name already.
    target += "." + unique;
    if (::renameat(store, path.c_str(), store, target.c_str()) != 0) {
      return FailSys("rename " + path + " to " + target);
    }
  }
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), "", 1);
  return {};
}

bool Janitor::Holds(int store, const std::string& as) {
  struct stat info {};
  return ::fstatat(store, ("trash/" + as).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace atl::spawner
