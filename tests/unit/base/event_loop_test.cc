#include "runtime/base/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "runtime/base/sys.h"

namespace atl {
namespace {

constexpr int64_t kPatienceUs = 10'000'000;

class EventLoopTest : public testing::Test {
 protected:
  EventLoopTest() {
    guard_ = loop_->After(kPatienceUs, [this] { Fail(); });
  }

  static sys::Pipe Pipe() {
    auto pipe = sys::MakePipe();
    EXPECT_TRUE(pipe.has_value());
    return std::move(*pipe);
  }
  // Returns a pipe that stays readable.
  static sys::Pipe FullPipe(std::string_view bytes = "abc") {
    sys::Pipe pipe = Pipe();
    EXPECT_TRUE(sys::WriteAll(pipe.write.get(), bytes).has_value());
    return pipe;
  }
  EventLoop::Id Watch(int fd, uint32_t events, EventLoop::FdCallback callback) {
    auto id = loop_->Watch(fd, events, std::move(callback));
    EXPECT_TRUE(id.has_value());
    return id.value_or(0);
  }
  // Runs one turn, which serves the events that are ready now.
  void Turn() { loop_->Turn(0); }

  const std::unique_ptr<EventLoop> loop_ = *EventLoop::Create();

 private:
  void Fail() {
    ADD_FAILURE() << "nothing happened";
    loop_->Quit();
  }
  EventLoop::Id guard_ = 0;
};

// ---- descriptors

TEST_F(EventLoopTest, TellsForAsLongAsADescriptorIsReadable) {
  const sys::Pipe pipe = FullPipe();
  std::string seen;
  EventLoop::Id id = 0;
  id = Watch(pipe.read.get(), EPOLLIN, [&](uint32_t events) {
    EXPECT_EQ(events, static_cast<uint32_t>(EPOLLIN));
    char c = 0;
    ASSERT_EQ(read(pipe.read.get(), &c, 1),
              1);  // one byte per call, so the loop must report the rest again
    seen.push_back(c);
    if (seen.size() < 3) return;
    loop_->Unwatch(id);
    loop_->Quit();
  });
  EXPECT_TRUE(seen.empty()) << "called from within Watch";
  loop_->Run();
  EXPECT_EQ(seen, "abc");
  EXPECT_NE(fcntl(pipe.read.get(), F_GETFD), -1) << "the descriptor was only borrowed";
}

TEST_F(EventLoopTest, ReadsAndWritesOneDescriptor) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  ASSERT_TRUE(pair.has_value());
  uint32_t told = 0;
  const auto id = Watch(pair->a.get(), EPOLLIN, [&](uint32_t events) { told |= events; });
  Turn();
  EXPECT_EQ(told, 0U);
  loop_->Modify(id, EPOLLIN | EPOLLOUT);
  Turn();
  EXPECT_EQ(told, static_cast<uint32_t>(EPOLLOUT));
  ASSERT_TRUE(sys::WriteAll(pair->b.get(), "x").has_value());
  told = 0;
  Turn();
  EXPECT_EQ(told, static_cast<uint32_t>(EPOLLIN | EPOLLOUT));
  loop_->Modify(id, 0);
  told = 0;
  Turn();
  EXPECT_EQ(told, 0U);
  pair->b.reset();
  Turn();
  EXPECT_NE(told & EPOLLHUP, 0U) << "a hang-up is told whatever was asked for";
}

TEST_F(EventLoopTest, RefusesWhatCannotBeWatched) {
  const sys::Pipe pipe = Pipe();
  Watch(pipe.read.get(), EPOLLIN, [](uint32_t) {});
  const auto twice = loop_->Watch(pipe.read.get(), EPOLLIN, [](uint32_t) {});
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().error_number(), EEXIST);
  const UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto regular = loop_->Watch(file.get(), EPOLLIN, [](uint32_t) {});
  ASSERT_FALSE(regular.has_value());
  EXPECT_EQ(regular.error().error_number(), EPERM);
}

TEST_F(EventLoopTest, IsSilentAfterUnwatchAndWatchesAgain) {
  const sys::Pipe pipe = FullPipe();
  loop_->Unwatch(Watch(pipe.read.get(), EPOLLIN, [](uint32_t) { ADD_FAILURE(); }));
  Turn();
  int told = 0;
  Watch(pipe.read.get(), EPOLLIN, [&](uint32_t) { ++told; });
  Turn();
  EXPECT_EQ(told, 1);
}

TEST_F(EventLoopTest, TellsNobodyOfADescriptorThatAnotherCallbackHasClosed) {
  // Both are ready in one turn. The first callback closes the other's descriptor, and a pipe with
  // nothing in it gets that number.
  sys::Pipe pipes[2] = {FullPipe(), FullPipe()};
  sys::Pipe fresh;
  EventLoop::Id ids[2] = {};
  int told = 0;
  int told_of_fresh = 0;
  for (int i = 0; i < 2; ++i) {
    ids[i] = Watch(pipes[i].read.get(), EPOLLIN, [&, i](uint32_t) {
      ++told;
      loop_->Unwatch(ids[i]);
      const int other = 1 - i;
      const int number = pipes[other].read.get();
      loop_->Unwatch(ids[other]);
      pipes[other].read.reset();
      fresh = Pipe();
      ASSERT_EQ(fresh.read.get(), number) << "the test needs the same number";
      Watch(fresh.read.get(), EPOLLIN, [&](uint32_t) { ++told_of_fresh; });
    });
  }
  Turn();
  EXPECT_EQ(told, 1);
  Turn();
  EXPECT_EQ(told_of_fresh, 0);
  ASSERT_TRUE(sys::WriteAll(fresh.write.get(), "x").has_value());
  Turn();
  EXPECT_EQ(told_of_fresh, 1);
}

TEST_F(EventLoopTest, ModifyHoldsForWhatTheTurnHasHeard) {
  sys::Pipe pipes[2] = {FullPipe(), FullPipe()};
  EventLoop::Id ids[2] = {};
  int told = 0;
  for (int i = 0; i < 2; ++i) {
    ids[i] = Watch(pipes[i].read.get(), EPOLLIN, [&, i](uint32_t) {
      ++told;
      loop_->Modify(ids[1 - i], 0);
    });
  }
  Turn();
  EXPECT_EQ(told, 1);
}

TEST_F(EventLoopTest, ACallbackMayReplaceItselfAndGoOn) {
  const sys::Pipe pipe = FullPipe();
  auto kept = std::make_shared<std::string>("kept");
  std::weak_ptr<std::string> alive = kept;
  EventLoop::Id id = 0;
  bool replaced = false;
  bool told = false;
  id = Watch(pipe.read.get(), EPOLLIN, [&, kept](uint32_t) {
    loop_->Unwatch(id);
    id = Watch(pipe.read.get(), EPOLLIN, [&told](uint32_t) { told = true; });
    EXPECT_EQ(*kept, "kept") << "what runs must stay whole";
    replaced = true;
  });
  kept.reset();
  Turn();
  EXPECT_TRUE(replaced);
  EXPECT_TRUE(alive.expired()) << "an unwatched callback dies with its turn";
  EXPECT_FALSE(told);
  Turn();
  EXPECT_TRUE(told);
}

TEST_F(EventLoopTest, ACallbackMayDestroyItsOwner) {
  struct Owner {
    Owner(EventLoop& the_loop, sys::Pipe the_pipe, std::unique_ptr<Owner>& the_self)
        : loop(the_loop), pipe(std::move(the_pipe)), self(the_self) {
      id = *loop.Watch(pipe.read.get(), EPOLLIN, [this](uint32_t) { self.reset(); });
      timer = loop.After(0, [] { ADD_FAILURE() << "cancelled by the owner's end"; });
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
      loop.Unwatch(id);
      loop.Cancel(timer);
    }
    EventLoop& loop;
    sys::Pipe pipe;
    std::unique_ptr<Owner>& self;
    EventLoop::Id id, timer;
  };
  std::unique_ptr<Owner> owner;
  owner = std::make_unique<Owner>(*loop_, FullPipe(), owner);
  Turn();
  EXPECT_EQ(owner, nullptr);
  Turn();
}

TEST_F(EventLoopTest, NoDescriptorStarvesOthers) {
  // More descriptors are always ready than one turn handles.
  std::vector<sys::Pipe> pipes;
  std::set<int> told;
  for (int i = 0; i < 200; ++i) {
    pipes.push_back(FullPipe());
    const int fd = pipes.back().read.get();
    Watch(fd, EPOLLIN, [&told, fd](uint32_t) { told.insert(fd); });
  }
  bool timer = false;
  bool posted = false;
  loop_->After(0, [&] { timer = true; });
  loop_->Post([&] { posted = true; });
  Turn();
  EXPECT_TRUE(timer && posted);
  EXPECT_LT(told.size(), 200U);
  for (int i = 0; i < 4; ++i) Turn();
  EXPECT_EQ(told.size(), 200U);
}

// ---- timers

TEST_F(EventLoopTest, FiresTimersInOrderAndNotTooEarly) {
  std::vector<int> fired;
  const auto start = std::chrono::steady_clock::now();
  loop_->After(20'000, [&] {
    fired.push_back(3);
    loop_->Quit();
  });
  loop_->After(10'000, [&] { fired.push_back(1); });
  loop_->After(10'500, [&] { fired.push_back(2); });
  const auto cancelled = loop_->After(15'000, [] { ADD_FAILURE(); });
  loop_->Cancel(cancelled);
  loop_->Cancel(4711);
  loop_->Run();
  EXPECT_EQ(fired, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

TEST_F(EventLoopTest, FiresWhatIsDueAtOnceInTheOrderOfTheTimes) {
  std::vector<int> fired;
  loop_->After(2000, [&] { fired.push_back(2); });
  loop_->After(1000, [&] { fired.push_back(1); });
  for (int i = 0; i < 3; ++i) loop_->After(3000, [&, i] { fired.push_back(3 + i); });
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(4)) {
  }
  Turn();
  EXPECT_EQ(fired, (std::vector<int>{1, 2, 3, 4, 5}));
}

TEST_F(EventLoopTest, ATimerThatIsCancelledInItsOwnMomentStaysSilent) {
  EventLoop::Id second = 0;
  loop_->After(0, [&] { loop_->Cancel(second); });
  second = loop_->After(0, [] { ADD_FAILURE(); });
  Turn();
  Turn();
}

TEST_F(EventLoopTest, TimersThatSetTimersLeaveATurnToOthers) {
  int fired = 0;
  std::function<void()> again = [&] {
    ++fired;
    loop_->After(0, again);
  };
  loop_->After(0, again);
  Turn();
  EXPECT_EQ(fired, 1);
  Turn();
  EXPECT_EQ(fired, 2);
}

TEST_F(EventLoopTest, WaitsForLessThanAMillisecond) {
  std::chrono::steady_clock::duration shortest = std::chrono::seconds(1);
  for (int i = 0; i < 50; ++i) {
    const auto start = std::chrono::steady_clock::now();
    loop_->After(100, [&] { loop_->Quit(); });
    loop_->Run();
    shortest = std::min(shortest, std::chrono::steady_clock::now() - start);
  }
  EXPECT_GE(shortest, std::chrono::microseconds(100));
  EXPECT_LT(shortest, std::chrono::milliseconds(1));
}

TEST_F(EventLoopTest, WakesForTimersThatComeBeforeOrBehindOneTakenBack) {
  // The wait has no limit and ends at once.
  sys::Pipe pipe = FullPipe();
  const EventLoop::Id ready = Watch(pipe.read.get(), EPOLLIN, [](uint32_t) {});
  const EventLoop::Id first = loop_->After(5'000, [] { ADD_FAILURE(); });
  loop_->Turn(-1);
  loop_->Cancel(first);
  loop_->After(10'000, [&] { loop_->Quit(); });
  loop_->Turn(-1);
  loop_->Unwatch(ready);
  const auto start = std::chrono::steady_clock::now();
  loop_->Run();
  loop_->After(1'000, [&] { loop_->Quit(); });
  loop_->Run();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(EventLoopTest, KeepsNothingOfCancelledTimers) {
  std::vector<int> fired;
  const auto held = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  const size_t before = held();
  for (int i = 0; i < 100'000; ++i) {
    if (i % 10'000 == 0) loop_->After(1000 - i / 10'000, [&, i] { fired.push_back(i); });
    loop_->Cancel(loop_->After(3'600'000'000, [] { ADD_FAILURE(); }));
  }
  EXPECT_LT(held(), before + 100'000);
  loop_->After(2000, [&] { loop_->Quit(); });
  loop_->Run();
  EXPECT_EQ(fired.size(), 10U) << "the others stay";
}

// ---- work for later

TEST_F(EventLoopTest, PostedWorkRunsOnceInOrderAndNotWithinTheCall) {
  std::string seen;
  loop_->Post([&] {
    seen += 'a';
    loop_->Post([&] { seen += 'c'; });
    seen += 'A';
  });
  loop_->Post([&] { seen += 'b'; });
  EXPECT_EQ(seen, "");
  Turn();
  EXPECT_EQ(seen, "aAb") << "what posted work posts waits for the next turn";
  Turn();
  EXPECT_EQ(seen, "aAbc");
}

TEST_F(EventLoopTest, WhatACallbackPostsRunsInTheSameTurn) {
  const sys::Pipe pipe = FullPipe();
  bool posted = false;
  Watch(pipe.read.get(), EPOLLIN, [&](uint32_t) { loop_->Post([&] { posted = true; }); });
  Turn();
  EXPECT_TRUE(posted);
}

TEST_F(EventLoopTest, TakesWorkFromAnyThread) {
  constexpr int kThreads = 4;
  constexpr int kEach = 5000;
  int count = 0;
  std::vector<int> last(kThreads, -1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        loop_->Post([&, t, i] {
          EXPECT_EQ(last[static_cast<size_t>(t)], i - 1) << "each thread's in its order";
          last[static_cast<size_t>(t)] = i;
          if (++count == kThreads * kEach) loop_->Quit();
        });
        if (i % 64 == 0) std::this_thread::yield();  // lets the loop fall asleep at times
      }
    });
  }
  loop_->Run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kEach);
}

TEST_F(EventLoopTest, WakesForEachPostOfAnotherThread) {
  // One question and one answer at a time: if a wake-up is lost, nothing more happens.
  constexpr int kRounds = 2000;
  std::atomic<int> answered = 0;
  std::thread asker([&] {
    for (int i = 0; i < kRounds; ++i) {
      loop_->Post([&] { ++answered; });
      const auto start = std::chrono::steady_clock::now();
      while (answered <= i) {
        if (std::chrono::steady_clock::now() - start > std::chrono::seconds(5)) return;
      }
    }
    loop_->Quit();
  });
  loop_->Run();
  asker.join();
  EXPECT_EQ(answered, kRounds);
}

TEST_F(EventLoopTest, AStepIsTakenOnceATurnUntilItIsTheLast) {
  int steps = 0;
  loop_->Slice([&] { return ++steps < 3; });
  Turn();
  EXPECT_EQ(steps, 1);
  for (int i = 0; i < 5; ++i) Turn();
  EXPECT_EQ(steps, 3);
}

TEST_F(EventLoopTest, AQuitBeforeRunIsNotLost) {
  loop_->Quit();
  loop_->Run();
  bool ran = false;
  loop_->Post([&] {
    ran = true;
    loop_->Quit();
  });
  loop_->Run();
  EXPECT_TRUE(ran);
}

TEST_F(EventLoopTest, ItsEndDestroysWhatHasNotRun) {
  // Destroyed callbacks may unregister watches, and may post work that is destroyed, too.
  auto loop = *EventLoop::Create();
  const sys::Pipe pipe = Pipe();
  int ended = 0;
  EventLoop::Id id = 0;
  const auto last = [&, raw = loop.get()] {
    return std::shared_ptr<void>(nullptr, [&, raw](void*) {
      raw->Unwatch(id);
      raw->Post([held = std::shared_ptr<void>(nullptr, [&ended](void*) { ++ended; })] {});
    });
  };
  id = *loop->Watch(pipe.read.get(), EPOLLIN, [held = last()](uint32_t) {});
  loop->Post([held = last()] { ADD_FAILURE(); });
  loop->After(0, [held = last()] { ADD_FAILURE(); });
  loop.reset();
  EXPECT_EQ(ended, 3);
}

// ---- ends of processes

UniqueFd Fork(int code, int signal) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (signal != 0) raise(signal);
    _exit(code);
  }
  auto pidfd = sys::PidfdOpen(pid);
  EXPECT_TRUE(pidfd.has_value());
  return std::move(*pidfd);
}

TEST_F(EventLoopTest, TellsTheEndOfAChildOnce) {
  const UniqueFd exits = Fork(7, 0);
  const UniqueFd killed = Fork(0, SIGKILL);
  int told = 0;
  const auto count = [&] {
    if (++told == 2) loop_->Quit();
  };
  ASSERT_TRUE(loop_->OnExit(exits.get(), [&](std::optional<int> status) {
    EXPECT_TRUE(status && WIFEXITED(*status) && WEXITSTATUS(*status) == 7);
    count();
  }));
  ASSERT_TRUE(loop_->OnExit(killed.get(), [&](std::optional<int> status) {
    EXPECT_TRUE(status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL);
    count();
  }));
  loop_->Run();
  Turn();
  EXPECT_EQ(told, 2);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "nobody is left to wait for";
}

TEST_F(EventLoopTest, SaysIfAStatusIsSomebodyElses) {
  const UniqueFd child = Fork(7, 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PIDFD, static_cast<id_t>(child.get()), &info, WEXITED), 0);
  bool told = false;
  ASSERT_TRUE(loop_->OnExit(child.get(), [&](std::optional<int> status) {
    EXPECT_FALSE(status.has_value());
    told = true;
    loop_->Quit();
  }));
  loop_->Run();
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace atl
