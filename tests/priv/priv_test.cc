#include "tests/priv/priv_test.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/base/sys.h"

namespace atl::priv {
namespace {

constexpr int kBodyFailed = 1;
constexpr int kDyingGraceMs = 2'000;

// Gives the guest's emulated CPU ten times as much time.
int Scaled(int ms) {
  return std::getenv("ATOLL_GUEST") != nullptr ? ms * 10 : ms;
}

// Returns true if our child `pid` has ended, and can be reaped, before the deadline.
bool AwaitEnd(pid_t pid, int timeout_ms) {
  const auto pidfd = sys::PidfdOpen(pid);
  if (!pidfd) {
    ADD_FAILURE() << pidfd.error().message();
    return false;
  }
  pollfd poll_fd{.fd = pidfd->get(), .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&poll_fd, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// Writes the child's failures to a file, one record each: "path\0line\0text\0". A memfd instead of
// a pipe: it has no capacity to fill, and a process that outlives the body cannot keep it open.
class FailureWriter : public testing::EmptyTestEventListener {
 public:
  explicit FailureWriter(int fd) : fd_(fd) {}

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::string record = result.file_name() != nullptr ? result.file_name() : "";
    record += '\0';
    record += std::to_string(result.line_number());
    record += '\0';
    record += result.message();
    record += '\0';
    if (::write(fd_, record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
      (void)std::fputs(result.message(), stderr);
    }
  }

  int fd_;
};

[[noreturn]] void ChildMain(void (*body)(), const UniqueFd& failures) {
  // A time limit above this process kills the test program only.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailureWriter(failures.get()));
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the body threw: " << error.what();
  } catch (...) {
    ADD_FAILURE() << "the body threw something that is no std::exception";
  }
  (void)std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? kBodyFailed : 0);
}

// Repeats the child's failures in this process. Returns their number.
int ReportFailures(const UniqueFd& failures) {
  std::string text;
  char buffer[4096];
  ssize_t size = 0;
  for (off_t at = 0; (size = ::pread(failures.get(), buffer, sizeof buffer, at)) > 0; at += size) {
    text.append(buffer, static_cast<size_t>(size));
  }
  std::vector<std::string> fields;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\0', start);
    fields.push_back(text.substr(start, end - start));
    start = end == std::string::npos ? text.size() : end + 1;
  }
  int count = 0;
  for (size_t i = 0; i + 2 < fields.size(); i += 3, ++count) {
    int line = 0;
    std::from_chars(fields[i + 1].data(), fields[i + 1].data() + fields[i + 1].size(), line);
    ADD_FAILURE_AT(fields[i].c_str(), line) << fields[i + 2];
  }
  return count;
}

void ReportEnd(int status, int reported) {
  if (WIFSIGNALED(status)) {
    ADD_FAILURE() << "the body died of signal " << WTERMSIG(status) << " ("
                  << ::strsignal(WTERMSIG(status)) << ")";
  } else if (WEXITSTATUS(status) == kBodyFailed) {
    EXPECT_GT(reported, 0) << "the body failed without saying why";
  } else if (WEXITSTATUS(status) != 0) {
    ADD_FAILURE() << "the body exited on its own with status " << WEXITSTATUS(status);
  }
}

std::vector<pid_t> Children() {
  std::ifstream list("/proc/thread-self/children");
  std::vector<pid_t> pids;
  for (pid_t pid = 0; list >> pid;) pids.push_back(pid);
  return pids;
}

std::string CommandName(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// Ends every process that the body left. We are their reaper now, so they are our children. A
// process that is already dying, killed through its cgroup a moment ago, is no failure. One that
// goes on is.
void ReapLeftovers() {
  for (auto pids = Children(); !pids.empty(); pids = Children()) {
    for (const pid_t pid : pids) {
      if (!AwaitEnd(pid, kDyingGraceMs)) {
        ADD_FAILURE() << "the body left process " << pid << " (" << CommandName(pid) << ") behind";
        ::kill(pid, SIGKILL);
      }
      ::waitpid(pid, nullptr, 0);
    }
  }
}

}  // namespace

void RunInChild(void (*body)(), int time_limit_ms) {
  if (::geteuid() != 0) {
    FAIL() << "this test needs root (it has uid " << ::geteuid() << ")";
  }
  const UniqueFd failures(::memfd_create("failures", MFD_CLOEXEC));
  ASSERT_TRUE(failures.valid()) << "memfd_create: " << std::strerror(errno);
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0) << std::strerror(errno);
  (void)std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0) << "fork: " << std::strerror(errno);
  if (child == 0) ChildMain(body, failures);

  const bool ended = AwaitEnd(child, Scaled(time_limit_ms));
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child) << std::strerror(errno);
  const int reported = ReportFailures(failures);
  if (ended) {
    ReportEnd(status, reported);
  } else {
    ADD_FAILURE() << "no end after " << Scaled(time_limit_ms) << " ms";
  }
  ReapLeftovers();
}

ScratchDir::ScratchDir() : owner_(::getpid()) {
  const char* base = std::getenv("TEST_TMPDIR");
  std::string name = std::string(base != nullptr ? base : "/var/tmp") + "/atoll-test.XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
  }
  path_ = name;
}

ScratchDir::~ScratchDir() {
  // A forked child that unwinds must not remove its parent's directory.
  if (::getpid() != owner_) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) ADD_FAILURE() << "cannot remove " << path_ << ": " << error.message();
}

std::string ScratchDir::Sh(const std::string& command, const std::string& where) const {
  sys::Pipe pipe = std::move(*sys::MakePipe());
  const pid_t pid = ::fork();
  if (pid == 0) {
    const std::string directory = *this / where;
    if (::chdir(directory.c_str()) != 0) ::_exit(126);
    ::dup2(pipe.write.get(), 1);
    ::dup2(pipe.write.get(), 2);
    ::execl("/bin/sh", "sh", "-ec", command.c_str(), nullptr);
    ::_exit(127);
  }
  pipe.write.reset();
  const auto out = sys::ReadAll(pipe.read.get(), 1 << 20);
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(out && status == 0) << command << ": " << out.value_or("");
  return out.value_or("");
}

}  // namespace atl::priv
