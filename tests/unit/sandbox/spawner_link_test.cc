#include "runtime/launch/spawner_link.h"

#include <gtest/gtest.h>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

class SpawnerLinkTest : public testing::Test {
 protected:
  SpawnerLinkTest() {
    auto first = std::make_unique<FakeSpawner>(loop);
    current = first.get();
    link = std::make_unique<SpawnerLink>(
        std::move(first),
        [this]() -> Result<std::unique_ptr<launch::SpawnerClient>> {
          ++attempts;
          if (!answers) return Fail(Code::kUnavailable, "connection refused");
          auto next = std::make_unique<FakeSpawner>(loop);
          current = next.get();
          return std::unique_ptr<launch::SpawnerClient>(std::move(next));
        },
        SpawnerLink::Texts{"start it", "start it by hand"});
    link->Start(
        loop, [this](const wire::SandboxRecord& r) { exited += r.id; }, [this] { ++lost; });
    link->OnReconnected([this](const wire::Greeting& hello) { instance = hello.instance; });
  }

  FakeClock clock;
  FakeLoop loop{clock};
  FakeSpawner* current = nullptr;
  std::unique_ptr<SpawnerLink> link;
  bool answers = false;
  int attempts = 0;
  int lost = 0;
  uint32_t instance = 0;
  std::string exited;
};

TEST_F(SpawnerLinkTest, ForwardsWhileConnected) {
  current->exit({.id = "x"});
  EXPECT_EQ(exited, "x");
  bool done = false;
  link->Ask(wire::Destroy{"a"}, [&](const Result<wire::Destroyed>& s) { done = s.has_value(); });
  EXPECT_EQ(current->AnswerDestroy(), "a");
  EXPECT_TRUE(done);
}

TEST_F(SpawnerLinkTest, RefusesWhileThereIsNone) {
  current->lost();
  loop.Run();
  EXPECT_EQ(lost, 1);
  EXPECT_FALSE(link->connected());
  int refused = 0;
  link->Ask(wire::Destroy{"a"}, [&](const Result<wire::Destroyed>& s) {
    EXPECT_EQ(s.error().code(), Code::kUnavailable);
    EXPECT_EQ(s.error().message(), "start it");
    ++refused;
  });
  link->Ask(wire::PrepareSlot(), [&](const Result<wire::PreparedSlot>& r) {
    EXPECT_EQ(r.error().code(), Code::kUnavailable);
    ++refused;
  });
  EXPECT_EQ(refused, 0);  // the answer comes from the loop, not from inside the call
  loop.Run();
  EXPECT_EQ(refused, 2);
}

TEST_F(SpawnerLinkTest, OneThatDoesNotComeIsNotPromised) {
  for (int round = 1; round <= 2; ++round) {
    answers = false;
    current->lost();
    loop.Pass(9'000'000);
    EXPECT_EQ(link->why(), "start it");
    EXPECT_EQ(lost, 2 * round - 1);
    loop.Pass(2'000'000);
    EXPECT_EQ(link->why(), "start it by hand");
    EXPECT_EQ(lost, 2 * round);  // reported once more
    loop.Pass(20'000'000);
    EXPECT_EQ(link->why(), "start it by hand");
    answers = true;
    loop.Pass(1'000'000);
    current->AnswerHello(wire::Greeting{.instance = 5});
    EXPECT_TRUE(link->connected());
    loop.Pass(20'000'000);
    EXPECT_EQ(lost, 2 * round);
  }
}

TEST_F(SpawnerLinkTest, FindsTheNextOne) {
  current->lost();
  loop.Pass(1'000'000);
  EXPECT_GE(attempts, 3);
  EXPECT_EQ(instance, 0U);
  answers = true;
  loop.Pass(1'000'000);
  EXPECT_FALSE(link->connected());  // not before the spawner's greeting
  current->AnswerHello(wire::Greeting{.instance = 5});
  EXPECT_TRUE(link->connected());
  EXPECT_EQ(instance, 5U);
  current->exit({.id = "y"});
  EXPECT_EQ(exited, "y");
  const int before = attempts;
  loop.Pass(5'000'000);
  EXPECT_EQ(attempts, before);
}

TEST_F(SpawnerLinkTest, AStoppedOneIsNotWaitedForByAnybodyElse) {
  answers = true;
  current->lost();
  loop.Pass(1'000'000);
  Error refused(Code::kInternal, "");
  link->Ask(wire::Destroy{"a"}, [&](const Result<wire::Destroyed>& s) { refused = s.error(); });
  loop.Run();
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_NE(refused.message().find("is it stopped?"), std::string::npos) << refused.message();
  EXPECT_TRUE(current->destroys.empty());
  // The link gave up on this connection and makes another.
  FakeSpawner* const first = current;
  const auto hello = std::move(first->hellos.front());
  current->lost();
  hello(Fail(Code::kUnavailable, "does not answer"));
  loop.Pass(1'000'000);
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(lost, 1);
  current->AnswerHello(wire::Greeting{.instance = 7});
  EXPECT_EQ(instance, 7U);
}

TEST_F(SpawnerLinkTest, OneOfAnotherProtocolIsNotUsed) {
  answers = true;
  current->lost();
  loop.Pass(1'000'000);
  current->AnswerHello(Fail(Code::kFailedPrecondition, "protocol 9"));
  loop.Pass(1'000'000);
  EXPECT_GE(attempts, 2);
  EXPECT_FALSE(link->connected());
}

TEST_F(SpawnerLinkTest, NothingIsSentBehindAStop) {
  link->Ask(wire::Stop(), [](const Status&) {});
  bool refused = false;
  link->Ask(wire::Destroy{"a"}, [&](const Result<wire::Destroyed>& s) { refused = !s; });
  loop.Run();
  EXPECT_TRUE(refused);
  EXPECT_TRUE(current->destroys.empty());
}

TEST_F(SpawnerLinkTest, AStopWaitsForTheNextOne) {
  current->lost();
  loop.Run();
  bool done = false;
  link->Ask(wire::Stop(), [&](const Status& s) { done = s.has_value(); });
  bool refused = false;
  link->Ask(wire::Destroy{"a"}, [&](const Result<wire::Destroyed>& s) { refused = !s; });
  loop.Run();
  EXPECT_FALSE(done);
  EXPECT_TRUE(refused);
  answers = true;
  loop.Pass(1'000'000);
  current->AnswerHello(wire::Greeting{.instance = 5});
  EXPECT_TRUE(done);
  EXPECT_EQ(instance, 0U);  // the daemon asks it for nothing else
  const int before = attempts;
  current->lost();
  loop.Pass(20'000'000);
  EXPECT_EQ(attempts, before);
}

TEST_F(SpawnerLinkTest, AStopThatIsCutOffIsAskedOfTheNextOne) {
  answers = true;
  current->stop_is_cut_off = true;
  int done = 0;
  link->Ask(wire::Stop(), [&](const Status& s) { done += s.has_value() ? 1 : 100; });
  EXPECT_TRUE(current->stopped);
  current->lost();
  loop.Pass(1'000'000);
  EXPECT_EQ(done, 0);
  current->AnswerHello(wire::Greeting{.instance = 5});
  EXPECT_EQ(done, 1);
}

TEST_F(SpawnerLinkTest, AStopIsNotWaitedForWithoutEnd) {
  current->lost();
  loop.Run();
  Error why(Code::kInternal, "");
  link->Ask(wire::Stop(), [&](const Status& s) { why = s.error(); });
  loop.Pass(9'000'000);
  EXPECT_EQ(why.code(), Code::kInternal);
  loop.Pass(2'000'000);
  EXPECT_EQ(why.message(), "start it by hand");
}

TEST_F(SpawnerLinkTest, AStopIsRefusedWhereNoneHasComeForLong) {
  current->lost();
  loop.Pass(11'000'000);
  bool refused = false;
  link->Ask(wire::Stop(), [&](const Status& s) { refused = !s; });
  loop.Run();
  EXPECT_TRUE(refused);
}

TEST_F(SpawnerLinkTest, AStoppedSpawnerIsNotLookedFor) {
  bool done = false;
  link->Ask(wire::Stop(), [&](const Status& s) { done = s.has_value(); });
  EXPECT_TRUE(done);
  current->lost();
  loop.Pass(5'000'000);
  EXPECT_EQ(attempts, 0);
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace atl::sandbox
