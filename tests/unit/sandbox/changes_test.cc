#include <gtest/gtest.h>

#include "runtime/wire/plan.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class ChangeTest : public SandboxesTest {
 protected:
  // Pauses or resumes. The result becomes "ok" or the error's code; it is "" until then.
  std::shared_ptr<std::string> Pause(const std::string& id) {
    auto answer = std::make_shared<std::string>();
    sandboxes->pauses.Pause(kCaller, id, Into(answer));
    return answer;
  }
  std::shared_ptr<std::string> Resume(const std::string& id) {
    auto answer = std::make_shared<std::string>();
    sandboxes->pauses.Resume(kCaller, id, Into(answer));
    return answer;
  }
  static Settled Into(const std::shared_ptr<std::string>& answer) {
    return [answer](const Status& status) {
      EXPECT_EQ(*answer, "");
      *answer = status ? "ok" : std::string(CodeName(status.error().code()));
    };
  }
  State StateOf(const std::string& id) const {
    return sandboxes->registry.Find(kCaller, id)->state;
  }
};

TEST_F(ChangeTest, PauseIsAnsweredWhenEverythingStandsStill) {
  const std::string id = CreateRunning();
  const auto paused = Pause(id);
  EXPECT_EQ(*paused, "");
  EXPECT_EQ(StateOf(id), State::kPausing);
  EXPECT_EQ(Stored()[0].state, State::kPausing);
  // A second pause waits for the first. The spawner is asked only once.
  const auto again = Pause(id);
  EXPECT_EQ(*Resume(id), CodeName(Code::kFailedPrecondition));
  ASSERT_EQ(spawner.freezes.size(), 1U);
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
  EXPECT_EQ(*paused + *again, "okok");
  EXPECT_EQ(StateOf(id), State::kPaused);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reason, "CONTAINER_PAUSED");
  EXPECT_EQ(*Pause(id), CodeName(Code::kFailedPrecondition));

  const auto resumed = Resume(id);
  EXPECT_EQ(StateOf(id), State::kResuming);
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  EXPECT_EQ(*resumed, "ok");
  EXPECT_EQ(StateOf(id), State::kRunning);
  EXPECT_EQ(*Resume(id), CodeName(Code::kFailedPrecondition));
  EXPECT_EQ(*Pause("nope"), CodeName(Code::kNotFound));
}

TEST_F(ChangeTest, APauseThatFailsLetsEverythingGoOn) {
  const std::string id = CreateRunning();
  const auto paused = Pause(id);
  spawner.AnswerFreeze(Fail(Code::kDeadlineExceeded, "one goes on"));
  EXPECT_EQ(*paused, CodeName(Code::kInternal));
  EXPECT_EQ(StateOf(id), State::kResuming);
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  EXPECT_EQ(StateOf(id), State::kRunning);
}

TEST_F(ChangeTest, AResumeThatFailsLeavesItPaused) {
  const std::string id = CreateRunning();
  Pause(id);
  spawner.AnswerFreeze();
  const auto resumed = Resume(id);
  spawner.AnswerFreeze(Fail(Code::kInternal, "no"));
  EXPECT_EQ(*resumed, CodeName(Code::kInternal));
  EXPECT_EQ(StateOf(id), State::kPaused);
}

TEST_F(ChangeTest, AnEndOvertakesAPause) {
  const std::string ends = CreateRunning();
  const auto first = Pause(ends);
  Ended(ends, 9);
  EXPECT_EQ(*first, CodeName(Code::kFailedPrecondition));
  EXPECT_EQ(StateName(StateOf(ends)), StateName(State::kFailed));
  spawner.AnswerFreeze(Fail(Code::kFailedPrecondition, "it has ended"));
  EXPECT_EQ(StateName(StateOf(ends)), StateName(State::kFailed));

  const std::string deleted = CreateRunning();
  const auto second = Pause(deleted);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, deleted));
  EXPECT_EQ(*second, CodeName(Code::kFailedPrecondition));
  spawner.AnswerFreeze();
  EXPECT_EQ(sandboxes->registry.Find(kCaller, deleted), nullptr);
}

TEST_F(ChangeTest, ADeadlineEndsWhatIsPaused) {
  Wanted wanted = Want();
  wanted.timeout_seconds = 60;
  const std::string id = CreateRunning(wanted);
  Pause(id);
  spawner.AnswerFreeze();
  loop.Pass(61 * kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id), nullptr);
  EXPECT_EQ(spawner.AnswerDestroy(), id);
}

TEST_F(ChangeTest, ARestartFinishesWhatWasUnderWay) {
  const std::string pausing = CreateRunning(), paused = CreateRunning(), resuming = CreateRunning();
  Pause(paused);
  Pause(resuming);
  spawner.AnswerFreeze();
  spawner.AnswerFreeze();
  Pause(pausing);
  Resume(resuming);
  wire::Greeting hello;
  for (const auto& id : {pausing, paused, resuming}) hello.sandboxes.push_back(Present(id));
  hello.frozen_slots = {Present(paused).slot, Present(resuming).slot};
  spawner.freezes.clear();
  Boot(hello);
  EXPECT_EQ(StateOf(paused), State::kPaused);
  EXPECT_TRUE(SocketExists(paused) && SocketExists(pausing) && SocketExists(resuming));
  ASSERT_EQ(spawner.freezes.size(), 2U);
  std::set<std::string> asked = {spawner.AnswerFreeze(), spawner.AnswerFreeze()};
  EXPECT_EQ(asked, (std::set<std::string>{"freeze " + pausing, "thaw " + resuming}));
  EXPECT_EQ(StateOf(pausing), State::kPaused);
  EXPECT_EQ(StateOf(resuming), State::kRunning);
}

TEST_F(ChangeTest, APauseWaitsForTheNextSpawner) {
  const std::string id = CreateRunning();
  const auto paused = Pause(id);
  spawner.AnswerFreeze(Fail(Code::kUnavailable, "gone"));
  EXPECT_EQ(*paused, "");
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  sandboxes->reconciler.Reconcile(hello);
  spawner.AnswerFreeze();
  EXPECT_EQ(*paused, "ok");
}

TEST_F(ChangeTest, ARefusedPauseHasNoEffectLaterEither) {
  const std::string id = CreateRunning();
  const auto paused = Pause(id);
  spawner.AnswerFreeze(Fail(Code::kUnavailable, "gone"));
  loop.Pass(6 * kSecond);
  EXPECT_EQ(*paused, CodeName(Code::kUnavailable));
  EXPECT_EQ(StateOf(id), State::kRunning);
  EXPECT_EQ(Stored()[0].state, State::kRunning);
  // The lost spawner had not paused the sandbox.
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  sandboxes->reconciler.Reconcile(hello);
  EXPECT_TRUE(spawner.freezes.empty());
  // The spawner had paused it and was lost before it could answer.
  hello.frozen_slots = {Present(id).slot};
  sandboxes->reconciler.Reconcile(hello);
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  EXPECT_EQ(StateOf(id), State::kRunning);
}

TEST_F(ChangeTest, ARefusedResumeHasNoEffectLaterEither) {
  const std::string id = CreateRunning();
  Pause(id);
  spawner.AnswerFreeze();
  const auto resumed = Resume(id);
  spawner.AnswerFreeze(Fail(Code::kUnavailable, "gone"));
  loop.Pass(6 * kSecond);
  EXPECT_EQ(*resumed, CodeName(Code::kUnavailable));
  EXPECT_EQ(StateOf(id), State::kPaused);
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  sandboxes->reconciler.Reconcile(hello);
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
  EXPECT_EQ(StateOf(id), State::kPaused);
}

TEST_F(ChangeTest, APauseUnderWayIsNotGivenUpForAnEarlierLoss) {
  const std::string id = CreateRunning();
  const auto paused = Pause(id);
  spawner.AnswerFreeze(Fail(Code::kUnavailable, "gone"));
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  sandboxes->reconciler.Reconcile(hello);
  // A process of the sandbox is slow to freeze.
  loop.Pass(6 * kSecond);
  EXPECT_EQ(*paused, "");
  spawner.AnswerFreeze();
  EXPECT_EQ(*paused, "ok");
  EXPECT_EQ(StateOf(id), State::kPaused);
}

TEST_F(ChangeTest, MetadataIsMergedAndKept) {
  Wanted wanted = Want();
  wanted.metadata = {{"a", "1"}, {"b", "2"}};
  const std::string id = CreateRunning(wanted);
  ASSERT_TRUE(sandboxes->changes.PatchMetadata(
      kCaller, id, {{"a", std::nullopt}, {"c", "3"}, {"x", std::nullopt}}));
  ASSERT_TRUE(sandboxes->changes.PatchMetadata(kCaller, id, {{"b", "4"}}));
  const std::map<std::string, std::string> expected = {{"b", "4"}, {"c", "3"}};
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->metadata, expected);
  EXPECT_EQ(Stored()[0].metadata, expected);
  EXPECT_EQ(sandboxes->changes.PatchMetadata(kCaller, "nope", {}).error().code(), Code::kNotFound);
  // Several small patches cannot exceed the limit either.
  Changes::MetadataPatch many;
  while (many.size() < kMaxMetadata - 2) many["n" + std::to_string(many.size())] = "v";
  ASSERT_TRUE(sandboxes->changes.PatchMetadata(kCaller, id, many));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->metadata.size(), kMaxMetadata);
  const auto refused = sandboxes->changes.PatchMetadata(kCaller, id, {{"more", "v"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(sandboxes->changes.PatchMetadata(kCaller, id, {{"more", "v"}, {"n0", std::nullopt}}));
}

TEST_F(ChangeTest, AccessMovesTheDeadlineOfWhoAskedForIt) {
  config.renew_interval_seconds = 60;
  Boot({});
  Wanted wanted = Want();
  wanted.timeout_seconds = 100;
  const std::string plain = CreateRunning(wanted);
  wanted.spec.renew_by_seconds = 300;
  const std::string id = CreateRunning(wanted);
  const auto deadline = [&](const std::string& of) {
    return (*sandboxes->registry.Find(kCaller, of)->expires_at_ms - clock.unix_ms) / 1000;
  };
  sandboxes->changes.Touch(kCaller, plain);
  sandboxes->changes.Touch(kCaller, "nope");
  sandboxes->changes.Touch(kCaller, id);
  EXPECT_EQ(deadline(plain), 100);
  EXPECT_EQ(deadline(id), 300);
  // The deadline is extended at most once a minute, and never shortened.
  loop.Pass(59 * kSecond);
  sandboxes->changes.Touch(kCaller, id);
  EXPECT_EQ(deadline(id), 241);
  loop.Pass(2 * kSecond);
  sandboxes->changes.Touch(kCaller, id);
  EXPECT_EQ(deadline(id), 300);
  ASSERT_TRUE(sandboxes->changes.Renew(kCaller, id, clock.unix_ms + 1'000'000));
  loop.Pass(61 * kSecond);
  sandboxes->changes.Touch(kCaller, id);
  EXPECT_EQ(deadline(id), 939);
}

TEST_F(ChangeTest, NothingIsRenewedWhereItIsTurnedOff) {
  Wanted wanted = Want();
  wanted.timeout_seconds = 100;
  wanted.spec.renew_by_seconds = 300;
  const std::string id = CreateRunning(wanted);
  sandboxes->changes.Touch(kCaller, id);
  EXPECT_EQ(*sandboxes->registry.Find(kCaller, id)->expires_at_ms, clock.unix_ms + 100'000);
}

TEST_F(ChangeTest, WhatHasEndedIsForgottenAfterAWhile) {
  config.keep_ended_seconds = 600;
  Boot({});
  const std::string id = CreateRunning();
  Wanted wanted = Want();
  wanted.timeout_seconds = 6000;
  const std::string timed = CreateRunning(wanted);
  Ended(id, Exit(0));
  Ended(timed, Exit(0));
  spawner.AnswerDestroy();
  spawner.AnswerDestroy();
  loop.Pass(300 * kSecond);
  Boot({});
  loop.Pass(299 * kSecond);
  EXPECT_NE(sandboxes->registry.Find(kCaller, id), nullptr);
  loop.Pass(2 * kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id), nullptr);
  // The sandbox's own deadline counts.
  EXPECT_NE(sandboxes->registry.Find(kCaller, timed), nullptr);
}

TEST_F(ChangeTest, ARepeatedRequestGetsTheSameSandbox) {
  Wanted wanted = Want();
  wanted.idempotency_key = "k1";
  wanted.fingerprint = "f";
  const auto first = Create(wanted), second = Create(wanted);
  EXPECT_EQ(spawner.builds.size(), 1U);
  spawner.AnswerBuild();
  ASSERT_TRUE(first->result && second->result);
  EXPECT_EQ(first->result->id, second->result->id);
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(first->result->id));
  Boot(hello);
  EXPECT_EQ(Create(wanted)->result->id, first->result->id);

  Wanted other = wanted;
  other.fingerprint = "g";
  EXPECT_EQ(Create(other)->result.error().code(), Code::kAlreadyExists);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, first->result->id));
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kAlreadyExists);
  // The key is forgotten after a day.
  clock.Advance(kKeyLifeMs * 1000 + 1);
  wanted.idempotency_key = "k2";
  Create(wanted);
  wanted.idempotency_key = "k1";
  EXPECT_FALSE(Create(wanted)->called);
}

TEST_F(ChangeTest, AKeyOfWhatFailedCanBeUsedAgain) {
  Wanted wanted = Want();
  wanted.idempotency_key = "k";
  const auto first = Create(wanted), second = Create(wanted);
  spawner.AnswerBuild(Fail(Code::kInternal, "no"));
  EXPECT_FALSE(first->result || second->result);
  EXPECT_TRUE(second->called);
  const auto third = Create(wanted);
  spawner.AnswerDestroy();
  spawner.AnswerBuild();
  EXPECT_TRUE(third->result);
}

TEST_F(ChangeTest, NoMoreIsPromisedThanTheHostHas) {
  config.budget.memory_total = 1 << 30;
  config.budget.memory_budget = 1536 << 20;
  config.budget.pids_budget = 1300;
  HostBudget::Free free{.memory_bytes = 1 << 30, .pids = 1000};
  bool told = true;
  config.budget.free = [&]() -> Result<HostBudget::Free> {
    if (!told) return Fail(Code::kInternal, "the kernel does not tell");
    return free;
  };
  config.budget.memory_reserve = 100 << 20;
  config.budget.pids_reserve = 100;
  Boot({});
  Wanted wanted = Want();
  wanted.resource_limits = {{"memory", "2Gi"}};
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kInvalidArgument);
  wanted.resource_limits = {{"memory", "800Mi"}};
  const std::string id = CreateRunning(wanted);
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kResourceExhausted);
  wanted.resource_limits = {{"memory", "10Mi"}};
  CreateRunning(wanted);
  // Each sandbox reserves 512 pids.
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kResourceExhausted);
  // The reservation is released when nothing of the sandbox is left.
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  EXPECT_FALSE(Create(wanted)->result);
  spawner.AnswerDestroy();
  free.memory_bytes = 99 << 20;
  EXPECT_EQ(Create(wanted)->result.error().error_number(), ENOMEM);
  free = {.memory_bytes = 100 << 20, .pids = 99};
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kResourceExhausted);
  free.pids = 100;
  told = false;
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kInternal);
  told = true;
  CreateRunning(wanted);
  config.budget = {.sandboxes = 1};
  Boot({});
  while (!spawner.destroys.empty()) spawner.AnswerDestroy();
  CreateRunning(wanted);
  EXPECT_EQ(Create(wanted)->result.error().error_number(), ENOMEM);
}

TEST_F(ChangeTest, ATimeoutHasItsBound) {
  config.check.max_timeout_seconds = 100;
  Boot({});
  Wanted wanted = Want();
  wanted.timeout_seconds = 101;
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kInvalidArgument);
  wanted.timeout_seconds = 100;
  CreateRunning(wanted);
}

TEST_F(ChangeTest, AReadonlyRootIsInThePlanAndInTheRecord) {
  Wanted wanted = Want();
  wanted.spec.readonly_root = true;
  wanted.secure_access = true;
  Create(wanted);
  EXPECT_TRUE(spawner.builds[0].plan->readonly_root);
  spawner.AnswerBuild();
  EXPECT_TRUE(Stored()[0].spec.readonly_root);
  EXPECT_GE(Stored()[0].secure_token.size(), 32U);
}

}  // namespace
}  // namespace atl::sandbox
