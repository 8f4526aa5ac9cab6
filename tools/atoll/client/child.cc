#include "tools/atoll/client/child.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "runtime/base/move_descriptors.h"
#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"

namespace atl::cli {
namespace {

constexpr size_t kMaxOutput = 4 << 20;
constexpr int kMeanwhileMs = 200;
// Above all ids that systemd, Atoll's spawner and useradd assign.
constexpr uid_t kNobodysIds = 1'900'000'000;

std::vector<char*> Pointers(const Words& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child. Returns only if the program cannot be started; errno says why.
void Execute(const Child& child, char* const* argv, int output, pid_t parent) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  // Keeps `output` open in the child, because its end tells the parent that the child has ended.
  std::array<DescriptorMove, 3> moves{{{null, STDIN_FILENO},
                                       {child.told ? STDERR_FILENO : output, STDOUT_FILENO},
                                       {output, output}}};
  if (!MoveDescriptors(moves)) return;
  if (child.user != 0 &&
      (setgroups(0, nullptr) != 0 || setresgid(child.user, child.user, child.user) != 0 ||
       setresuid(child.user, child.user, child.user) != 0 ||
       prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)) {
    return;
  }
  // Set again, because the change of user id cleared it.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (!child.cwd.empty() && chdir(child.cwd.c_str()) != 0) return;
  // Removes the daemon's key: the program may process hostile input.
  for (const char* secret : {"ATOLL_API_KEY", "ATOLL_API_KEY_FILE"}) unsetenv(secret);
  for (const std::string& one : child.env) putenv(const_cast<char*>(one.c_str()));
  execvp(argv[0], argv);
}

// Reads to the end of the output. The first signal at `cancel_fd` ends the child, and reading
// continues until it has ended.
Status ReadOutput(int from, int cancel_fd, pid_t pid, const Child& child, std::string* text) {
  char part[4096];
  for (;;) {
    pollfd wanted[] = {{from, POLLIN, 0}, {cancel_fd, POLLIN, 0}};
    if (TEMP_FAILURE_RETRY(poll(wanted, 2, child.meanwhile ? kMeanwhileMs : -1)) < 0) {
      return FailSys("poll");
    }
    if (child.meanwhile) child.meanwhile();
    if (wanted[1].revents != 0) {
      kill(pid, SIGTERM);
      cancel_fd = -1;  // watched no longer
    }
    if (wanted[0].revents == 0) continue;
    const ssize_t n = TEMP_FAILURE_RETRY(read(from, part, sizeof part));
    if (n < 0) return FailSys("read");
    if (n == 0) return {};
    // Reads and drops the rest, so that the child does not block.
    text->append(part, std::min(kMaxOutput - text->size(), static_cast<size_t>(n)));
  }
}

}  // namespace

Result<TemporaryDirectory> TemporaryDirectory::Make(const std::string& place) {
  const char* said = getenv("TMPDIR");
  std::string path = (said != nullptr ? said : place) + "/atoll.XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return FailSys("mkdtemp " + path);
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::~TemporaryDirectory() {
  if (path_.empty()) return;
  [[maybe_unused]] const auto removed = sys::RemoveTree(AT_FDCWD, path_);
}

uid_t NobodysId() {
  return kNobodysIds + static_cast<uid_t>(getpid());
}

Result<std::string> RunChild(const Child& child, int cancel_fd) {
  ATOLL_ASSIGN(sys::Pipe output, sys::MakePipe());
  ATOLL_ASSIGN(sys::Pipe failure, sys::MakePipe());  // exec closes it
  const std::vector<char*> argv = Pointers(child.argv);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return FailSys("fork");
  if (pid == 0) {
    Execute(child, argv.data(), output.write.get(), parent);
    const int error = errno;
    [[maybe_unused]] const ssize_t n = write(failure.write.get(), &error, sizeof error);
    _exit(127);
  }
  output.write.reset();
  failure.write.reset();
  std::string text;
  const Status read_all = ReadOutput(output.read.get(), cancel_fd, pid, child, &text);
  int error = 0;
  const ssize_t failed = TEMP_FAILURE_RETRY(read(failure.read.get(), &error, sizeof error));
  int status = 0;
  if (TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)) != pid) return FailSys("waitpid");
  if (failed == sizeof error) {
    if (error != ENOENT) return Fail(SysError("execute " + child.argv[0], error));
    return Fail(Code::kFailedPrecondition, "'" + child.argv[0] +
                                               "' is missing; install it with: apt-get install "
                                               "--no-install-recommends " +
                                               child.apt);
  }
  ATOLL_TRY(read_all);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return Fail(Code::kFailedPrecondition,
              child.argv[0] + (WIFSIGNALED(status)
                                   ? " was ended by signal " + std::to_string(WTERMSIG(status))
                                   : " ended with " + std::to_string(WEXITSTATUS(status))));
}

}  // namespace atl::cli
