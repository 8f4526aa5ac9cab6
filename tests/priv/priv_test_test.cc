// Tests of the harness itself: every way in which a privileged test can go wrong must fail the
// test. The bad cases are disabled. Each good case starts this program again for one bad case and
// checks the report that a developer would see.
#include "tests/priv/priv_test.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "runtime/base/sys.h"

namespace atl::priv {
namespace {

PRIV_TEST(Bad, DISABLED_Expect) {
  EXPECT_EQ(1, 2) << "first of the body";
}
PRIV_TEST(Bad, DISABLED_Fatal) {
  FAIL() << "the only one";
}
PRIV_TEST(Bad, DISABLED_Signal) {
  (void)::raise(SIGKILL);
}
PRIV_TEST(Bad, DISABLED_Exit) {
  ::_exit(3);
}
PRIV_TEST(Bad, DISABLED_Throw) {
  throw std::runtime_error("thrown by the body");
}
PRIV_TEST(Bad, DISABLED_NotRoot) {
  ADD_FAILURE() << "the body ran";
}

PRIV_TEST(Bad, DISABLED_Grandchild) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ADD_FAILURE() << "two levels down";
    ::_exit(0);
  }
  ::waitpid(pid, nullptr, 0);
}

PRIV_TEST(Bad, DISABLED_Detached) {
  if (::fork() != 0) return;
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ::prctl(PR_SET_PDEATHSIG, 0);
  ::prctl(PR_SET_NAME, "straggler");
  ::pause();
}

TEST(Bad, DISABLED_Hang) {
  RunInChild([] { ::pause(); }, 50);
}

struct Outcome {
  int status = -1;
  std::string output;
};

// Runs this program for the case Bad.DISABLED_<name>, as user `uid`.
Outcome RunBad(const std::string& name, uid_t uid = 0) {
  auto pipe = sys::MakePipe();
  if (!pipe) return {};
  const pid_t pid = ::fork();
  if (pid == 0) {
    const std::string filter = "--gtest_filter=Bad.DISABLED_" + name;
    const std::string output = "--gtest_output=";
    ::dup2(pipe->write.get(), STDOUT_FILENO);
    if (uid != 0 && ::setuid(uid) != 0) ::_exit(126);
    ::execl("/proc/self/exe", "bad", filter.c_str(), output.c_str(),
            "--gtest_also_run_disabled_tests", nullptr);
    ::_exit(127);
  }
  pipe->write.reset();
  Outcome outcome;
  outcome.output = sys::ReadAll(pipe->read.get(), 1 << 20).value_or("");
  int status = 0;
  ::waitpid(pid, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

void ExpectRed(const Outcome& outcome, const std::string& text) {
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("1 FAILED TEST\n"), std::string::npos) << outcome.output;
}

PRIV_TEST(PrivTest, ChangesOfTheBodyStayInTheChild) {
  ASSERT_EQ(::unshare(CLONE_NEWUTS), 0);
  ASSERT_EQ(::sethostname("changed", 7), 0);
  ASSERT_EQ(::chdir("/proc"), 0);
}

TEST(PrivTest, ExpectationIsReported) {
  ExpectRed(RunBad("Expect"), "first of the body");
}
TEST(PrivTest, FatalFailureIsReported) {
  ExpectRed(RunBad("Fatal"), "the only one");
}
TEST(PrivTest, GrandchildIsReported) {
  ExpectRed(RunBad("Grandchild"), "two levels down");
}
TEST(PrivTest, SignalIsReported) {
  ExpectRed(RunBad("Signal"), "died of signal 9");
}
TEST(PrivTest, ExitIsReported) {
  ExpectRed(RunBad("Exit"), "on its own with status 3");
}
TEST(PrivTest, ExceptionIsReported) {
  ExpectRed(RunBad("Throw"), "threw: thrown by the body");
}
TEST(PrivTest, HangIsReported) {
  ExpectRed(RunBad("Hang"), "no end after");
}
TEST(PrivTest, DetachedProcessIsReported) {
  ExpectRed(RunBad("Detached"), "(straggler) behind");
}

TEST(PrivTest, WithoutRootItFailsAndDoesNotRunTheBody) {
  const Outcome outcome = RunBad("NotRoot", 65534);
  ExpectRed(outcome, "needs root (it has uid 65534)");
  EXPECT_EQ(outcome.output.find("the body ran"), std::string::npos);
}

TEST(ScratchDir, IsEmptyAndRemovedWithItsContents) {
  std::filesystem::path path;
  {
    ScratchDir dir;
    path = dir.path();
    EXPECT_TRUE(std::filesystem::is_empty(path));
    std::filesystem::create_directories(path / "a/b");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace atl::priv
