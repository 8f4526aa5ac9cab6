#include "runtime/base/thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <string>

namespace atl {
namespace {

TEST(StartThread, RunsUnderItsNameWithoutSignals) {
  char name[16] = {};
  sigset_t blocked;
  std::promise<void> named;
  auto thread = StartThread("worker", [&] {
    named.get_future().wait();
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  });
  ASSERT_TRUE(thread) << thread.error().message();
  pthread_getname_np(thread->native_handle(), name, sizeof name);
  named.set_value();
  thread->join();
  EXPECT_STREQ(name, "worker");
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0);
}

// Root is exempt from RLIMIT_NPROC, so the child is somebody else.
TEST(StartThread, ARefusalOfTheKernelIsAnError) {
  constexpr int kRefused = 0, kStarted = 1, kCannotTry = 2;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) ::_exit(kCannotTry);
    if (::geteuid() == 0 && ::setresuid(65'533, 65'533, 65'533) != 0) ::_exit(kCannotTry);
    const auto thread = StartThread("worker", [] {});
    const bool refused = !thread && thread.error().code() == Code::kResourceExhausted &&
                         thread.error().message().find("'worker'") != std::string::npos;
    ::_exit(refused ? kRefused : kStarted);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), kRefused);
}

}  // namespace
}  // namespace atl
