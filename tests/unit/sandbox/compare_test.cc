// The running daemon compares its records with the spawner and the kernel.
#include "runtime/base/sandbox_id.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kBetween = 31 * kSecond;

class CompareTest : public SandboxesTest {
 protected:
  // Runs the next comparison, with a spawner that answers `hello`.
  void Compare(wire::Greeting hello) {
    loop.Pass(kBetween);
    ASSERT_EQ(spawner.hellos.size(), 1U);
    hello.prepared_slots = InStock();
    spawner.AnswerHello(std::move(hello));
  }
  // Returns the slots that are prepared and neither dropped nor taken.
  std::vector<uint32_t> InStock() {
    std::vector<uint32_t> slots;
    for (const auto& [slot, control] : spawner.controls) {
      if (control) slots.push_back(slot);
    }
    return slots;
  }
  uint64_t Found(Difference difference) {
    return sandboxes->reconciler.differences()[static_cast<size_t>(difference)];
  }
  uint64_t FoundAny() {
    uint64_t sum = 0;
    for (const uint64_t count : sandboxes->reconciler.differences()) sum += count;
    return sum;
  }
};

TEST_F(CompareTest, NothingUnderWayIsTakenForADifference) {
  const std::string running = CreateRunning(), ended = CreateRunning();
  const std::string deleted = CreateRunning(), pausing = CreateRunning();
  wire::Greeting hello;
  for (const auto& id : {running, ended, deleted, pausing}) hello.sandboxes.push_back(Present(id));
  Ended(ended, Exit(0));
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, deleted));
  sandboxes->pauses.Pause(kCaller, pausing, [](const Status&) {});
  const auto building = Create();
  hello.frozen_slots = {Present(pausing).slot};
  Compare(hello);
  EXPECT_EQ(FoundAny(), 0U);
  EXPECT_EQ(spawner.destroys.size(), 2U);
  EXPECT_EQ(spawner.freezes.size(), 1U);
  EXPECT_TRUE(health.troubles().empty());
}

// No spawner can report the end, so the daemon asks the kernel.
TEST_F(CompareTest, WhatEndsWithoutASpawnerIsTold) {
  const std::string lives = CreateRunning(), ends = CreateRunning();
  gone_slots.insert(Present(ends).slot);
  loop.Pass(10 * kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, ends)->state,
            State::kRunning);  // the spawner would have reported the end
  sandboxes->reconciler.OnSpawnerLost();
  loop.Pass(kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, ends)->state,
            State::kRunning);  // the next spawner is expected
  loop.Pass(10 * kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, ends)->state, State::kFailing);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, lives)->state, State::kRunning);
  ASSERT_EQ(health.troubles().count("sandboxes"), 1U);
  EXPECT_NE(health.troubles().at("sandboxes").find("1 sandboxes have ended"), std::string::npos);
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(lives));
  sandboxes->reconciler.Reconcile(hello);
  gone_slots.insert(Present(lives).slot);
  loop.Pass(10 * kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, lives)->state, State::kRunning);
}

TEST_F(CompareTest, ProcessesWithoutARecordAreEnded) {
  const std::string id = CreateRunning();
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  wire::SandboxRecord orphan;
  orphan.id = NewSandboxId();
  orphan.slot = 40;
  hello.sandboxes.push_back(orphan);
  Compare(hello);
  EXPECT_EQ(Found(Difference::kOrphan), 1U);
  ASSERT_EQ(health.troubles().count("sandboxes"), 1U);
  EXPECT_NE(health.troubles().at("sandboxes").find("1 sandboxes ran without a record"),
            std::string::npos);
  // The next comparison comes soon. While the sandbox is being destroyed, no second request is
  // sent.
  loop.Pass(3 * kSecond);
  ASSERT_EQ(spawner.hellos.size(), 1U);
  hello.prepared_slots = InStock();
  spawner.AnswerHello(hello);
  EXPECT_TRUE(health.troubles().empty());
  ASSERT_EQ(spawner.destroys.size(), 1U);
  EXPECT_EQ(spawner.AnswerDestroy(), orphan.id);
  EXPECT_EQ(network.detached.back(), 40U);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kRunning);
}

TEST_F(CompareTest, ARecordWithoutProcessesIsEnded) {
  const std::string id = CreateRunning();
  Compare({});
  EXPECT_EQ(Found(Difference::kVanished), 1U);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reason, "SANDBOX_LOST");
}

TEST_F(CompareTest, AnExitThatNobodyToldOfIsSeen) {
  const std::string id = CreateRunning();
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  hello.sandboxes[0].exited = true;
  hello.sandboxes[0].wait_status = Exit(3);
  Compare(hello);
  EXPECT_EQ(Found(Difference::kMissedExit), 1U);
  EXPECT_EQ(StateName(sandboxes->registry.Find(kCaller, id)->state), StateName(State::kFailed));
}

TEST_F(CompareTest, WhatStandsStillWithoutReasonGoesOn) {
  const std::string running = CreateRunning(), paused = CreateRunning();
  sandboxes->pauses.Pause(kCaller, paused, [](const Status&) {});
  spawner.AnswerFreeze();
  wire::Greeting hello;
  for (const auto& id : {running, paused}) hello.sandboxes.push_back(Present(id));
  hello.frozen_slots = {Present(running).slot};
  Compare(hello);
  EXPECT_EQ(Found(Difference::kFreeze), 2U);
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + running);
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + paused);
}

TEST_F(CompareTest, ARemovalThatDoesNotEndIsSaid) {
  const std::string id = CreateRunning();
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  Compare(hello);
  EXPECT_EQ(Found(Difference::kStuck), 0U);
  Compare(hello);
  EXPECT_EQ(Found(Difference::kStuck), 1U);
}

TEST_F(CompareTest, StraysOfTheSpawnerAreSaid) {
  wire::Greeting hello;
  hello.stray_slots = {7, 9};
  Compare(hello);
  EXPECT_EQ(Found(Difference::kStray), 2U);
  hello.loose_slots = {5};
  Compare(hello);
  EXPECT_EQ(Found(Difference::kLoose), 1U);
  EXPECT_EQ(health.troubles().count("sandboxes"), 1U);
}

TEST_F(CompareTest, ABurstOfRemovalsIsComparedWhenItIsOver) {
  std::vector<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(CreateRunning());
  spawner.hellos.clear();
  for (const std::string& id : ids) ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  while (!spawner.destroys.empty()) spawner.AnswerDestroy();
  loop.Pass(5 * kSecond);
  EXPECT_EQ(spawner.hellos.size(), 1U);
}

}  // namespace
}  // namespace atl::sandbox
