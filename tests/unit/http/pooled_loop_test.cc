#include "runtime/http/pooled_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <thread>

#include "runtime/base/sys.h"

namespace atl::http {
namespace {

// Checks only the interface, because the event loop that does the work has tests of its own.
TEST(PooledLoop, WatchesAsTheInterfaceSays) {
  const auto loop = *PooledLoop::Create(1);
  auto pipe = sys::MakePipe();
  ASSERT_TRUE(pipe.has_value());
  ASSERT_TRUE(sys::WriteAll(pipe->write.get(), "x").has_value());
  const Loop::Id id = loop->WatchReadable(pipe->read.get(), [&] { loop->Quit(); });
  EXPECT_NE(id, 0U);
  EXPECT_EQ(loop->WatchReadable(pipe->read.get(), [] {}), 0U) << "it is watched already";
  loop->Run();
  loop->Modify(id, EPOLLOUT);
  loop->After(1000, [&] { loop->Quit(); });
  loop->Run();
  loop->Unwatch(id);
  EXPECT_NE(loop->WatchReadable(pipe->read.get(), [] {}), 0U);
  EXPECT_NE(fcntl(pipe->read.get(), F_GETFD), -1) << "the descriptor was only borrowed";
}

TEST(PooledLoop, RunsBlockingWorkElsewhereAndReturnsHere) {
  const auto loop = *PooledLoop::Create(2);
  const auto here = std::this_thread::get_id();
  std::thread::id there;
  bool signals_blocked = false;
  loop->RunBlocking(
      [&] {
        there = std::this_thread::get_id();
        sigset_t mask;
        pthread_sigmask(SIG_BLOCK, nullptr, &mask);
        signals_blocked = sigismember(&mask, SIGTERM) == 1;
      },
      [&] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        loop->Quit();
      });
  loop->Run();
  EXPECT_NE(there, here);
  EXPECT_TRUE(signals_blocked);
}

}  // namespace
}  // namespace atl::http
