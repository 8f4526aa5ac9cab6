#include "runtime/spawner/unpacks.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/namespaces.h"
#include "runtime/wire/spawner.h"
#include "runtime/wire/start.h"

namespace atl::spawner {
namespace {

constexpr size_t kMaxReport = 64 << 10;
constexpr size_t kMaxRuns = 4;

Status CheckDescriptors(int input, int output) {
  struct stat info {};
  if (::fstat(input, &info) != 0 || !S_ISREG(info.st_mode) ||
      (::fcntl(input, F_GETFL) & O_ACCMODE) != O_RDONLY) {
    return Fail(Code::kPermissionDenied, "unpack: input must be a regular file, open for reading");
  }
  if (::fstat(output, &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Fail(Code::kPermissionDenied, "unpack: output must be a directory");
  }
  return {};
}

[[noreturn]] void Child(const Host& host, const char* mode, int go, int input, int output,
                        int report) {
  // The maps come from the parent; end of file means that it could not write them.
  char byte;
  if (TEMP_FAILURE_RETRY(::read(go, &byte, 1)) != 1) ::_exit(125);
  if (::setgroups(0, nullptr) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0 ||
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    ::_exit(125);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  constexpr int kAbove = 64;
  const int sources[] = {input, output, report};
  int lifted[3];
  for (int i = 0; i < 3; ++i) lifted[i] = ::fcntl(sources[i], F_DUPFD_CLOEXEC, kAbove);
  const int program = ::fcntl(host.unpack.get(), F_DUPFD_CLOEXEC, kAbove);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || program < 0) ::_exit(125);
  for (int standard = 0; standard <= 2; ++standard) ::dup3(null, standard, 0);
  ::dup3(lifted[0], wire::kUnpackInputFd, 0);
  ::dup3(lifted[1], wire::kUnpackOutputFd, 0);
  ::dup3(lifted[2], wire::kUnpackReportFd, 0);
  ::close_range(wire::kUnpackReportFd + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  char name[] = "atoll-unpack";
  char* const argv[] = {name, const_cast<char*>(mode), nullptr};
  char* const envp[] = {nullptr};
  ::syscall(SYS_execveat, program, "", argv, envp, AT_EMPTY_PATH);
  ::_exit(127);
}

}  // namespace

void Unpacks::Start(const char* mode, UniqueFd input, UniqueFd output, Done done) {
  const Status checked = CheckDescriptors(input.get(), output.get());
  if (!checked) return done(Fail(checked.error()));
  if (runs_.size() >= kMaxRuns) {
    return done(Fail(Code::kUnavailable, "unpack: too many at once"));
  }
  auto report = sys::MakePipe();
  auto go = sys::MakePipe();
  if (!report) return done(Fail(std::move(report).error()));
  if (!go) return done(Fail(std::move(go).error()));
  const auto pid = Clone(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                         CLONE_NEWUTS | CLONE_NEWCGROUP);
  if (!pid) return done(Fail(pid.error()));
  if (*pid == 0) {
    go->write.reset();
    Child(host_, mode, go->read.get(), input.get(), output.get(), report->write.get());
  }
  Status mapped = WriteIdMaps(*pid, {0, kStoreIdBase});
  // As its unit's servant this process may be the host's last to be killed for memory: not so what
  // reads a stranger's archive.
  if (mapped) {
    mapped = sys::WriteFileAt(AT_FDCWD, "/proc/" + std::to_string(*pid) + "/oom_score_adj",
                              wire::kOomScore);
  }
  Run run;
  run.done = std::move(done);
  if (mapped) {
    [[maybe_unused]] const ssize_t n = ::write(go->write.get(), "", 1);
  } else {
    run.text = mapped.error().message();
  }
  ::fcntl(report->read.get(), F_SETFL, O_NONBLOCK);
  run.report = std::move(report->read);
  const int fd = run.report.get();
  runs_[*pid] = std::move(run);
  const Status added = poller_.Add(fd, [this, child = *pid] { OnReadable(child); });
  ATOLL_CHECK(added.has_value());
}

void Unpacks::OnReadable(pid_t pid) {
  const auto found = runs_.find(pid);
  if (found == runs_.end() || !found->second.report) return;
  Run& run = found->second;
  char chunk[4096];
  for (;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(::read(run.report.get(), chunk, sizeof chunk));
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) break;
    // What is over the limit is read and dropped, so that a chatty unpacker is not stuck for ever.
    const size_t room = kMaxReport - run.text.size();
    run.text.append(chunk, std::min(room, static_cast<size_t>(n)));
  }
  // End of file: nothing more comes; the exit status does.
  poller_.Remove(run.report.get());
  run.report.reset();
}

bool Unpacks::OnChildExit(pid_t pid, int wait_status) {
  const auto found = runs_.find(pid);
  if (found == runs_.end()) return false;
  OnReadable(pid);
  Run run = std::move(found->second);
  runs_.erase(found);
  if (run.report) poller_.Remove(run.report.get());
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
    run.done(std::move(run.text));
    return true;
  }
  if (run.text.empty()) {
    run.text = WIFSIGNALED(wait_status)
                   ? "atoll-unpack was killed by signal " + std::to_string(WTERMSIG(wait_status))
                   : "atoll-unpack ended with status " + std::to_string(WEXITSTATUS(wait_status));
  }
  run.done(Fail(Code::kInvalidArgument, std::move(run.text)));
  return true;
}

}  // namespace atl::spawner
