#include <gtest/gtest.h>

#include "runtime/sandbox/metrics.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class IdleTest : public SandboxesTest {
 protected:
  std::string CreateIdle(bool ends = false) {
    Wanted wanted = Want();
    wanted.spec.idle = {20, ends};
    return CreateRunning(std::move(wanted));
  }
  // Creates a sandbox that the policy has paused.
  std::string CreatePaused() {
    const std::string id = CreateIdle();
    loop.Pass(21 * kSecond);
    EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
    return id;
  }
  Settled Into(const char* what) {
    return [this, what](const Status& status) {
      answers.push_back(what + std::string(status ? " ok" : " failed"));
    };
  }
  std::string StateOf(const std::string& id) const {
    const Sandbox* found = sandboxes->registry.Find(kCaller, id);
    return found == nullptr ? "gone" : std::string(StateName(found->state)) + " " + found->reason;
  }

  std::vector<std::string> answers;
};

TEST_F(IdleTest, IsPausedAndWakesWithTheNextRequest) {
  const std::string id = CreatePaused();
  EXPECT_EQ(StateOf(id), "Paused IDLE_PAUSED");
  EXPECT_EQ(Stored()[0].reason, "IDLE_PAUSED");
  const auto use = sandboxes->pauses.Use(*sandboxes->registry.Find(kCaller, id));
  sandboxes->pauses.Wake(kCaller, id, Into("one"));
  sandboxes->pauses.Wake(kCaller, id, Into("two"));
  ASSERT_EQ(spawner.freezes.size(), 1U);
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  EXPECT_EQ(answers, (std::vector<std::string>{"one ok", "two ok"}));
  sandboxes->pauses.Wake(kCaller, id, Into("three"));
  EXPECT_EQ(answers.back(), "three ok");
  // Not while a request is in flight.
  loop.Pass(100 * kSecond);
  EXPECT_TRUE(spawner.freezes.empty());
  EXPECT_EQ(StateOf(id), "Running CONTAINER_RUNNING");
}

TEST_F(IdleTest, IsPausedAgainBehindARefusal) {
  const std::string id = CreatePaused();
  auto request = sandboxes->pauses.OpenRequest(*sandboxes->registry.Find(kCaller, id));
  sandboxes->pauses.Wake(kCaller, id, Into("one"));
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  EXPECT_EQ(StateOf(id), "Running CONTAINER_RUNNING");
  request.reset();
  loop.Run();
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
  EXPECT_EQ(StateOf(id), "Paused IDLE_PAUSED");
}

TEST_F(IdleTest, AClientsResumeIsUse) {
  const std::string id = CreateIdle();
  // The pause came in the middle of its answer.
  auto request = sandboxes->pauses.OpenRequest(*sandboxes->registry.Find(kCaller, id));
  sandboxes->pauses.Pause(kCaller, id, Into("pause"));
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
  sandboxes->pauses.Resume(kCaller, id, Into("resume"));
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  request.reset();
  loop.Pass(19 * kSecond);
  EXPECT_TRUE(spawner.freezes.empty());
  loop.Pass(2 * kSecond);
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
}

TEST_F(IdleTest, ARequestOnTheWayIntoThePauseWaitsForItsEnd) {
  const std::string id = CreateIdle();
  loop.Pass(21 * kSecond);
  EXPECT_EQ(StateOf(id), "Pausing IDLE_PAUSING");
  sandboxes->pauses.Wake(kCaller, id, Into("one"));
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
  loop.Run();
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  EXPECT_EQ(answers, std::vector<std::string>{"one ok"});
}

TEST_F(IdleTest, AFailureOfThePauseKeepsNobodyWaiting) {
  const std::string id = CreateIdle();
  loop.Pass(21 * kSecond);
  sandboxes->pauses.Wake(kCaller, id, Into("one"));
  spawner.AnswerFreeze(Fail(Code::kDeadlineExceeded, "one goes on"));
  loop.Run();
  EXPECT_EQ(StateOf(id), "Resuming IDLE_RESUMING");
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  EXPECT_EQ(answers, std::vector<std::string>{"one ok"});
  // The resume also fails without a spawner, and is tried again.
  loop.Pass(21 * kSecond);
  sandboxes->pauses.Wake(kCaller, id, Into("two"));
  spawner.AnswerFreeze(Fail(Code::kUnavailable, "gone"));
  loop.Pass(6 * kSecond);
  EXPECT_EQ(answers.back(), "two ok");
  EXPECT_EQ(StateOf(id), "Running CONTAINER_RUNNING");
  loop.Pass(21 * kSecond);
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
}

TEST_F(IdleTest, AThawThatFailsIsToldAndTriedByTheNext) {
  const std::string id = CreatePaused();
  sandboxes->pauses.Wake(kCaller, id, Into("one"));
  spawner.AnswerFreeze(Fail(Code::kInternal, "no"));
  EXPECT_EQ(answers, std::vector<std::string>{"one failed"});
  EXPECT_EQ(StateOf(id), "Paused IDLE_PAUSED");
  sandboxes->pauses.Wake(kCaller, id, Into("two"));
  spawner.AnswerFreeze(Fail(Code::kUnavailable, "gone"));
  loop.Pass(6 * kSecond);
  EXPECT_EQ(answers.back(), "two failed");
  EXPECT_EQ(StateOf(id), "Paused IDLE_PAUSED");
  sandboxes->pauses.Wake(kCaller, id, Into("three"));
  spawner.AnswerFreeze();
  EXPECT_EQ(answers.back(), "three ok");
}

TEST_F(IdleTest, NoRequestEndsThePauseOfAClient) {
  const std::string id = CreatePaused();
  sandboxes->pauses.Pause(kCaller, id, Into("pause"));
  EXPECT_EQ(answers, std::vector<std::string>{"pause ok"});
  EXPECT_EQ(StateOf(id), "Paused CONTAINER_PAUSED");
  EXPECT_EQ(Stored()[0].reason, "CONTAINER_PAUSED");
  sandboxes->pauses.Wake(kCaller, id, Into("wake"));
  EXPECT_EQ(answers.back(), "wake failed");
  sandboxes->pauses.Pause(kCaller, id, Into("again"));
  EXPECT_EQ(answers.back(), "again failed");
  sandboxes->pauses.Resume(kCaller, id, Into("resume"));
  spawner.AnswerFreeze();
  EXPECT_EQ(answers.back(), "resume ok");
  // The same during the pause itself: a request that waits for the sandbox gets an error.
  loop.Pass(21 * kSecond);
  sandboxes->pauses.Wake(kCaller, id, Into("wake"));
  sandboxes->pauses.Pause(kCaller, id, Into("pause"));
  EXPECT_EQ(StateOf(id), "Pausing CONTAINER_PAUSING");
  spawner.AnswerFreeze();
  EXPECT_EQ(answers.back(), "pause ok");
  loop.Run();
  EXPECT_EQ(answers.back(), "wake failed");
  EXPECT_EQ(StateOf(id), "Paused CONTAINER_PAUSED");
  EXPECT_EQ(sandboxes->pauses.stats().paused, 2U);
  EXPECT_EQ(sandboxes->pauses.stats().idle_paused, 2U);
  EXPECT_EQ(sandboxes->pauses.stats().woken, 0U);
}

TEST_F(IdleTest, ARestartKnowsWhoseThePauseIs) {
  const std::string id = CreatePaused();
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  hello.frozen_slots.push_back(hello.sandboxes[0].slot);
  Boot(hello);
  EXPECT_EQ(StateOf(id), "Paused IDLE_PAUSED");
  const auto use = sandboxes->pauses.Use(*sandboxes->registry.Find(kCaller, id));
  sandboxes->pauses.Wake(kCaller, id, Into("one"));
  EXPECT_EQ(spawner.AnswerFreeze(), "thaw " + id);
  EXPECT_EQ(answers, std::vector<std::string>{"one ok"});
  loop.Pass(100 * kSecond);
  EXPECT_TRUE(spawner.freezes.empty()) << "it is in use";
}

TEST_F(IdleTest, ARestartWatchesOnWhatRuns) {
  const std::string id = CreateIdle();
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(id));
  Boot(hello);
  loop.Pass(21 * kSecond);
  ASSERT_EQ(spawner.freezes.size(), 1U);
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
}

TEST_F(IdleTest, OrItEnds) {
  const std::string id = CreateIdle(true);
  loop.Pass(19 * kSecond);
  EXPECT_EQ(StateOf(id), "Running CONTAINER_RUNNING");
  loop.Pass(2 * kSecond);
  EXPECT_EQ(StateOf(id), "gone");
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_TRUE(sandboxes->registry.IsGone(kCaller, id));
  EXPECT_EQ(sandboxes->endings.ends()[static_cast<size_t>(End::kIdle)], 1U);
  EXPECT_EQ(sandboxes->endings.ends()[static_cast<size_t>(End::kExpired)], 0U);
}

TEST_F(IdleTest, TheOperatorsIsForWhoSaysNothing) {
  config.check.idle = {20, false};
  Boot({});
  const std::string id = CreateRunning();
  Wanted never = Want();
  never.spec.idle = IdlePolicy{};
  const std::string awake = CreateRunning(std::move(never));
  EXPECT_FALSE(sandboxes->registry.Find(kCaller, awake)->spec.idle);
  loop.Pass(100 * kSecond);
  ASSERT_EQ(spawner.freezes.size(), 1U);
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + id);
  EXPECT_EQ(sandboxes->pauses.Use(*sandboxes->registry.Find(kCaller, awake)), nullptr);
  MetricSet metrics;
  AddMetrics(*sandboxes, *snapshots, *admission, *pool, network, images, health, nullptr, nullptr,
             &metrics);
  const std::string text = PrometheusText(metrics);
  for (const char* line :
       {"atoll_pauses_total{by=\"idle\"} 1\n", "atoll_paused{by=\"idle\"} 1\n",
        "atoll_pauses_total{by=\"request\"} 0\n", "atoll_paused{by=\"request\"} 0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST_F(IdleTest, WhatEndsMeanwhileKeepsNobodyWaiting) {
  const std::string id = CreatePaused();
  sandboxes->pauses.Wake(kCaller, id, Into("one"));
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  EXPECT_EQ(answers, std::vector<std::string>{"one failed"});
  sandboxes->pauses.Wake(kCaller, id, Into("two"));
  EXPECT_EQ(answers.back(), "two failed");
}

}  // namespace
}  // namespace atl::sandbox
