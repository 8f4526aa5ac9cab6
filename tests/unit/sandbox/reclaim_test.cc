#include <gtest/gtest.h>

#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class ReclaimTest : public SandboxesTest {
 protected:
  std::string CreateReclaiming() {
    Wanted wanted = Want();
    wanted.spec.reclaims = true;
    return CreateRunning(std::move(wanted));
  }
  void Pause(const std::string& id) {
    sandboxes->pauses.Pause(kCaller, id,
                            [this](const Status& status) { paused += status ? 1 : 0; });
    EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
  }
  void Resume(const std::string& id) {
    sandboxes->pauses.Resume(kCaller, id, [](const Status&) {});
    EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  }
  int paused = 0;
};

TEST_F(ReclaimTest, FollowsThePauseAndIsKept) {
  const std::string id = CreateReclaiming();
  Pause(id);
  EXPECT_EQ(paused, 1) << "who asked for the pause does not wait for it";
  EXPECT_EQ(spawner.AnswerReclaim(wire::Reclaimed{5000, 10}), id);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reclaimed_bytes, 5000U);
  EXPECT_EQ(Stored()[0].reclaimed_bytes, 5000U);
  EXPECT_EQ(sandboxes->pauses.stats().reclaimed, 1U);
  Resume(id);
  // The next pause has reclaimed nothing yet.
  Pause(id);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reclaimed_bytes, 0U);
  spawner.AnswerReclaim(wire::Reclaimed{7000, 10});
  EXPECT_EQ(sandboxes->pauses.stats().reclaimed_bytes, 12000U);
}

TEST_F(ReclaimTest, AFailureIsSaidAndFailsNoPause) {
  const std::string id = CreateReclaiming();
  Pause(id);
  spawner.AnswerReclaim(Fail(Code::kResourceExhausted, "it is full"));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kPaused);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->message,
            "Sandbox is paused; its memory is kept: it is full");
  EXPECT_EQ(Stored()[0].message, sandboxes->registry.Find(kCaller, id)->message);
  EXPECT_EQ(sandboxes->pauses.stats().kept, 1U);
}

TEST_F(ReclaimTest, AnAnswerThatComesTooLateCountsNoMore) {
  const std::string id = CreateReclaiming();
  Pause(id);
  Resume(id);
  Pause(id);
  spawner.AnswerReclaim(Fail(Code::kFailedPrecondition, "it goes on"));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->message, "Sandbox is paused");
  spawner.AnswerReclaim(wire::Reclaimed{5000, 10});
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reclaimed_bytes, 5000U);
}

TEST_F(ReclaimTest, TheNextSpawnerIsAskedAgain) {
  const std::string id = CreateReclaiming();
  Pause(id);
  spawner.AnswerReclaim(Fail(Code::kUnavailable, "the spawner is gone"));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->message, "Sandbox is paused");
  EXPECT_EQ(sandboxes->pauses.stats().kept, 0U);
  wire::Greeting hello;
  wire::SandboxRecord record;
  record.id = id;
  record.slot = sandboxes->registry.Find(kCaller, id)->slot;
  hello.sandboxes = {record};
  hello.frozen_slots = {record.slot};
  sandboxes->reconciler.Reconcile(hello);
  EXPECT_EQ(spawner.AnswerReclaim(wire::Reclaimed{5000, 10}), id);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reclaimed_bytes, 5000U);
}

TEST_F(ReclaimTest, IsOfThoseWhoAskForIt) {
  Wanted keeps = Want();
  keeps.spec.reclaims = false;
  Pause(CreateRunning(std::move(keeps)));
  Pause(CreateRunning(Want()));
  EXPECT_TRUE(spawner.reclaims.empty());
}

}  // namespace
}  // namespace atl::sandbox
