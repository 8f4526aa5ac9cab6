#include "runtime/sandbox/live/idle_watch.h"

#include <gtest/gtest.h>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

class IdleWatchTest : public testing::Test {
 protected:
  FakeClock clock;
  FakeLoop loop{clock};
  std::map<uint32_t, uint64_t> cpu_micros;
  bool readable = true;
  std::vector<std::string> idle;
  IdleWatch watch{loop, clock,
                  [this](uint32_t slot) -> Result<uint64_t> {
                    if (!readable) return Fail(Code::kNotFound, "no group");
                    return cpu_micros[slot];
                  },
                  [this](const std::string& id) { idle.push_back(id); }};

  // Opens a request that is answered well.
  std::shared_ptr<IdleWatch::Request> Use(const std::string& id) {
    auto request = watch.Open(id);
    request->Count();
    return request;
  }
};

TEST_F(IdleWatchTest, TellsOnceWhenTheTimeIsOver) {
  watch.Watch("a", 1, 20);
  watch.Watch("b", 2, 40);
  loop.Pass(19 * kSecondUs);
  EXPECT_TRUE(idle.empty());
  loop.Pass(2 * kSecondUs);
  EXPECT_EQ(idle, std::vector<std::string>{"a"});
  loop.Pass(60 * kSecondUs);
  EXPECT_EQ(idle, (std::vector<std::string>{"a", "b"}));
}

TEST_F(IdleWatchTest, WhoComputesIsNotIdle) {
  watch.Watch("a", 1, 20);
  watch.Watch("waits", 2, 20);
  for (int second = 0; second < 60; ++second) {
    cpu_micros[1] += 20'000;  // two hundredths of a CPU
    cpu_micros[2] += 5'000;
    loop.Pass(kSecondUs);
  }
  EXPECT_EQ(idle, std::vector<std::string>{"waits"});
  loop.Pass(30 * kSecondUs);
  EXPECT_EQ(idle, (std::vector<std::string>{"waits", "a"}));
}

TEST_F(IdleWatchTest, WhatIsOpenIsUse) {
  watch.Watch("a", 1, 20);
  auto stream = Use("a");
  auto copy = stream;
  loop.Pass(100 * kSecondUs);
  stream.reset();
  loop.Pass(100 * kSecondUs);
  EXPECT_TRUE(idle.empty());
  copy.reset();
  // The idle time starts again at the end of the request.
  loop.Pass(19 * kSecondUs);
  EXPECT_TRUE(idle.empty());
  loop.Pass(2 * kSecondUs);
  EXPECT_EQ(idle, std::vector<std::string>{"a"});
}

TEST_F(IdleWatchTest, ARequestBetweenTwoLooksIsUse) {
  watch.Watch("a", 1, 20);
  loop.Pass(18 * kSecondUs);
  Use("a").reset();
  loop.Pass(19 * kSecondUs);
  EXPECT_TRUE(idle.empty());
  loop.Pass(2 * kSecondUs);
  EXPECT_EQ(idle.size(), 1U);
}

TEST_F(IdleWatchTest, AUseThatBeganBeforeCounts) {
  const auto waking = Use("a");
  watch.Watch("a", 1, 20);
  loop.Pass(100 * kSecondUs);
  EXPECT_TRUE(idle.empty());
}

TEST_F(IdleWatchTest, ARefusedRequestIsNoUse) {
  watch.Watch("a", 1, 20);
  loop.Pass(18 * kSecondUs);
  watch.Open("a").reset();
  EXPECT_TRUE(idle.empty());
  loop.Pass(3 * kSecondUs);
  EXPECT_EQ(idle.size(), 1U);
}

TEST_F(IdleWatchTest, AnUnansweredRequestDelaysThePauseAndNoMore) {
  watch.Watch("a", 1, 20);
  auto slow = watch.Open("a");
  auto other = watch.Open("a");
  loop.Pass(100 * kSecondUs);
  slow.reset();
  loop.Run();
  EXPECT_TRUE(idle.empty());
  other.reset();
  EXPECT_TRUE(idle.empty()) << "not while a request ends";
  loop.Run();
  EXPECT_EQ(idle.size(), 1U);
}

TEST_F(IdleWatchTest, WhatWasResumedForRefusedRequestsIsIdleAtOnce) {
  auto waking = watch.Open("a");
  watch.Watch("a", 1, 20);
  cpu_micros[1] += 50'000;  // CPU time for the refusal
  loop.Pass(6 * kSecondUs);
  EXPECT_TRUE(idle.empty());
  waking.reset();
  loop.Run();
  EXPECT_EQ(idle.size(), 1U);
  // One of the requests was answered well, so the idle time starts again.
  waking = watch.Open("a");
  watch.Watch("a", 1, 20);
  Use("a").reset();
  waking.reset();
  loop.Pass(19 * kSecondUs);
  EXPECT_EQ(idle.size(), 1U);
  loop.Pass(2 * kSecondUs);
  EXPECT_EQ(idle.size(), 2U);
}

TEST_F(IdleWatchTest, ARequestMayOutliveTheSandboxAndThePause) {
  auto request = watch.Open("a");
  watch.Watch("a", 1, 20);
  auto other = watch.Open("b");
  watch.Forget("a");
  request.reset();
  other.reset();
  loop.Run();
  EXPECT_TRUE(idle.empty());
}

TEST_F(IdleWatchTest, WhatRestsOrIsGoneIsNotLookedAt) {
  watch.Watch("a", 1, 20);
  watch.Watch("b", 2, 20);
  watch.Rest("a");
  const auto open = Use("b");
  watch.Forget("b");
  watch.Rest("nope");
  loop.Pass(100 * kSecondUs);
  EXPECT_TRUE(idle.empty());
  watch.Watch("a", 1, 20);
  loop.Pass(21 * kSecondUs);
  EXPECT_EQ(idle, std::vector<std::string>{"a"});
}

TEST_F(IdleWatchTest, WhatCannotBeToldIsNoIdleness) {
  watch.Watch("a", 1, 20);
  readable = false;
  loop.Pass(100 * kSecondUs);
  EXPECT_TRUE(idle.empty());
  readable = true;
  loop.Pass(21 * kSecondUs);
  EXPECT_EQ(idle.size(), 1U);
}

}  // namespace
}  // namespace atl::sandbox
