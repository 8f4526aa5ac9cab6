#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/http/server.h"

namespace atl::http {
namespace {

class LoopTest : public testing::Test {
 protected:
  std::unique_ptr<AsioLoop> loop_ = AsioLoop::Create(2);
};

TEST_F(LoopTest, ReportsADescriptorForAsLongAsItIsReadable) {
  auto pipe = sys::MakePipe();
  ASSERT_TRUE(pipe.has_value());
  ASSERT_TRUE(sys::WriteAll(pipe->write.get(), "abc").has_value());
  std::string seen;
  Loop::Id id = 0;
  id = loop_->WatchReadable(pipe->read.get(), [&] {
    char c = 0;
    ASSERT_EQ(read(pipe->read.get(), &c, 1), 1);  // one a call: the rest must be reported again
    seen.push_back(c);
    if (seen.size() < 3) return;
    loop_->Unwatch(id);
    loop_->Quit();
  });
  EXPECT_NE(id, 0U);
  loop_->Run();
  EXPECT_EQ(seen, "abc");
  EXPECT_NE(fcntl(pipe->read.get(), F_GETFD), -1) << "the descriptor was only borrowed";
}

TEST_F(LoopTest, IsSilentAfterUnwatch) {
  auto pipe = sys::MakePipe();
  ASSERT_TRUE(pipe.has_value());
  const Loop::Id id = loop_->WatchReadable(pipe->read.get(), [] { ADD_FAILURE(); });
  ASSERT_TRUE(sys::WriteAll(pipe->write.get(), "x").has_value());
  loop_->Unwatch(id);
  loop_->After(5'000, [&] { loop_->Quit(); });
  loop_->Run();
  // The descriptor can be watched again.
  EXPECT_NE(loop_->WatchReadable(pipe->read.get(), [] {}), 0U);
}

TEST_F(LoopTest, RefusesToWatchTwice) {
  auto pipe = sys::MakePipe();
  ASSERT_TRUE(pipe.has_value());
  EXPECT_NE(loop_->WatchReadable(pipe->read.get(), [] {}), 0U);
  EXPECT_EQ(loop_->WatchReadable(pipe->read.get(), [] {}), 0U);
}

TEST_F(LoopTest, FiresTimersInOrderAndNotTooEarly) {
  std::vector<int> fired;
  const auto start = std::chrono::steady_clock::now();
  loop_->After(20'000, [&] {
    fired.push_back(2);
    loop_->Quit();
  });
  loop_->After(10'000, [&] { fired.push_back(1); });
  const Loop::Id cancelled = loop_->After(15'000, [&] { fired.push_back(9); });
  loop_->Cancel(cancelled);
  loop_->Cancel(4711);
  loop_->Run();
  EXPECT_EQ(fired, (std::vector<int>{1, 2}));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

TEST_F(LoopTest, ATimerThatWasCancelledInItsOwnMomentStaysSilent) {
  // Both are due at once: the first to run cancels the second, which waits in the queue.
  Loop::Id second = 0;
  loop_->After(0, [&] { loop_->Cancel(second); });
  second = loop_->After(0, [] { ADD_FAILURE(); });
  loop_->After(5'000, [&] { loop_->Quit(); });
  loop_->Run();
}

TEST_F(LoopTest, TakesWorkFromAnyThread) {
  std::atomic<int> count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        loop_->Post([&] {
          if (++count == 4000) loop_->Quit();
        });
      }
    });
  }
  loop_->Run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST_F(LoopTest, RunsBlockingWorkElsewhereAndReturnsHere) {
  const auto here = std::this_thread::get_id();
  std::thread::id there;
  bool signals_blocked = false;
  loop_->RunBlocking(
      [&] {
        there = std::this_thread::get_id();
        sigset_t mask;
        pthread_sigmask(SIG_BLOCK, nullptr, &mask);
        signals_blocked = sigismember(&mask, SIGTERM) == 1;
      },
      [&] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        loop_->Quit();
      });
  loop_->Run();
  EXPECT_NE(there, here);
  EXPECT_TRUE(signals_blocked);
}

}  // namespace
}  // namespace atl::http
