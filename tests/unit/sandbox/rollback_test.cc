#include "runtime/sandbox/copies/rollbacks.h"
#include "runtime/wire/plan.h"

#include <sys/socket.h>

#include <algorithm>

#include "netpolicy/policy/policy_json.h"
#include "netpolicy/vault/document_json.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class RollbackTest : public SandboxesTest {
 protected:
  struct Outcome {
    int called = 0;
    tl::expected<Sandbox, CreateError> made;
  };
  std::shared_ptr<Outcome> Begin(const std::string& id, const std::string& snapshot,
                                 const std::string& key = "",
                                 const std::string& fingerprint = "f") {
    auto outcome = std::make_shared<Outcome>();
    sandboxes->rollbacks.RollBack(kCaller, id, {snapshot, key, fingerprint, "r"},
                                  [outcome](const tl::expected<Sandbox, CreateError>& made) {
                                    ++outcome->called;
                                    outcome->made = made;
                                  });
    loop.Run();
    return outcome;
  }
  std::string Take(const std::string& id) {
    const auto taken = sandboxes->copies.TakeSnapshot(kCaller, id, "");
    EXPECT_TRUE(taken);
    spawner.AnswerCopy();
    spawner.AnswerPublish();
    return taken->id;
  }
  // Completes the next build. `execd` is execd's end of its control socket.
  std::string BuildNext() {
    auto build = spawner.AnswerBuild();
    execd = std::move(build.control);
    loop.Run();
    return build.id;
  }
  bool HasStarted() {
    char byte;
    return ::recv(execd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  }
  Code Refused(const std::string& id, const std::string& snapshot) {
    const auto outcome = Begin(id, snapshot);
    EXPECT_EQ(outcome->called, 1);
    EXPECT_TRUE(spawner.builds.empty());
    return outcome->made ? Code::kInternal : outcome->made.error().code();
  }
  void ExpectAsItWas(const Sandbox& before) {
    const Sandbox* now = sandboxes->registry.Find(kCaller, before.id);
    ASSERT_NE(now, nullptr);
    EXPECT_EQ(now->state, before.state);
    EXPECT_EQ(now->layers, before.layers);
    EXPECT_EQ(now->slot, before.slot);
    EXPECT_EQ(HostId(*now), HostId(before));
    ASSERT_EQ(Stored().size(), 1U);
    EXPECT_EQ(Stored().front().layers, before.layers);
    EXPECT_EQ(HostId(Stored().front()), HostId(before));
  }
  static wire::SandboxRecord Host(const std::string& host_id, uint32_t slot, bool exited = false) {
    wire::SandboxRecord record;
    record.id = host_id;
    record.slot = slot;
    record.exited = exited;
    record.code_known = exited;
    return record;
  }
};

TEST_F(RollbackTest, NothingStartsBeforeItsFormerSelfHasGone) {
  Wanted wanted = Want();
  wanted.metadata = {{"team", "ml"}};
  wanted.timeout_seconds = 600;
  wanted.secure_access = true;
  const std::string id = CreateRunning(wanted);
  const std::string snapshot = Take(id);
  const Sandbox before = *sandboxes->registry.Find(kCaller, id);
  const auto outcome = Begin(id, snapshot);
  ExpectAsItWas(before);
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_EQ(spawner.builds.front().plan->layers, (std::vector<wire::LayerId>{101, 2, 1}));
  EXPECT_EQ(spawner.builds.front().plan->hostname, PlanOf(before, {}).hostname);
  const std::string host_id = BuildNext();
  EXPECT_NE(host_id, id);
  // The rollback is recorded. The client has no answer yet.
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kReplacing);
  EXPECT_EQ(Stored().front().state, State::kReplacing);
  EXPECT_EQ(outcome->called, 0);
  EXPECT_FALSE(HasStarted());
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  loop.Run();
  EXPECT_TRUE(HasStarted());
  ASSERT_EQ(outcome->called, 1);
  ASSERT_TRUE(outcome->made);
  const Sandbox& now = *outcome->made;
  EXPECT_EQ(now.state, State::kRunning);
  EXPECT_EQ(now.id, id);
  EXPECT_EQ(HostId(now), host_id);
  EXPECT_NE(now.slot, before.slot);
  EXPECT_EQ(now.access_token, before.access_token);
  EXPECT_EQ(now.secure_token, before.secure_token);
  EXPECT_EQ(now.metadata, before.metadata);
  EXPECT_EQ(now.expires_at_ms, before.expires_at_ms);
  EXPECT_EQ(now.layers, (std::vector<wire::LayerId>{101, 2, 1}));
  EXPECT_EQ(network.claimed[now.slot].sandbox, id);
  EXPECT_EQ(Stored().front().state, State::kRunning);
  EXPECT_TRUE(SocketExists(id));
  EXPECT_EQ(sandboxes->registry.size(), 1U);
  // All later requests apply to the sandbox that runs now.
  sandboxes->pauses.Pause(kCaller, id, [](const Status&) {});
  EXPECT_EQ(spawner.AnswerFreeze(), "freeze " + host_id);
  Ended(id, Exit(0));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kPaused);
  Ended(host_id, Exit(0));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kEnding);
  EXPECT_EQ(spawner.AnswerDestroy(), host_id);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kTerminated);
}

TEST_F(RollbackTest, AgainAndAgain) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  std::string former = id;
  for (int i = 0; i < 3; ++i) {
    const auto outcome = Begin(id, snapshot);
    const std::string next = BuildNext();
    EXPECT_EQ(spawner.AnswerDestroy(), former);
    loop.Run();
    ASSERT_TRUE(outcome->made);
    former = next;
  }
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  EXPECT_EQ(spawner.AnswerDestroy(), former);
  loop.Run();
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  ASSERT_TRUE(sandboxes->copies.RemoveSnapshot(kCaller, snapshot));
  EXPECT_FALSE(sandboxes->layers.InUse(101));
}

TEST_F(RollbackTest, ItsLayersOutliveTheSnapshot) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  const auto outcome = Begin(id, snapshot);
  BuildNext();
  spawner.AnswerDestroy();
  loop.Run();
  ASSERT_TRUE(sandboxes->copies.RemoveSnapshot(kCaller, snapshot));
  EXPECT_TRUE(sandboxes->layers.InUse(101));
}

TEST_F(RollbackTest, WhatIsPausedRunsAfterwards) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  sandboxes->pauses.Pause(kCaller, id, [](const Status&) {});
  // The spawner has not answered the pause yet.
  const auto outcome = Begin(id, snapshot);
  BuildNext();
  spawner.AnswerFreeze();
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kReplacing);
  spawner.AnswerDestroy();
  loop.Run();
  ASSERT_TRUE(outcome->made);
  EXPECT_EQ(outcome->made->state, State::kRunning);
}

TEST_F(RollbackTest, RefusalsHaveNoEffect) {
  const std::string id = CreateRunning();
  const Sandbox before = *sandboxes->registry.Find(kCaller, id);
  EXPECT_EQ(Refused(id, "nothing"), Code::kNotFound);
  const auto creating = sandboxes->copies.TakeSnapshot(kCaller, id, "");
  EXPECT_EQ(Refused(id, creating->id), Code::kFailedPrecondition);
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  EXPECT_EQ(Refused("nobody", creating->id), Code::kNotFound);
  images.image.digest = "sha256:another";
  const std::string other = CreateRunning();
  EXPECT_EQ(Refused(other, creating->id), Code::kInvalidArgument);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, other));
  spawner.AnswerDestroy();
  ExpectAsItWas(before);
  Ended(id, Exit(0));
  EXPECT_EQ(Refused(id, creating->id), Code::kFailedPrecondition);
}

TEST_F(RollbackTest, OneAtATime) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id), another = Take(id);
  const auto first = Begin(id, snapshot);
  EXPECT_EQ(Begin(id, another)->made.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(Begin(id, snapshot, "of another request")->made.error().code(),
            Code::kFailedPrecondition);
  BuildNext();
  EXPECT_EQ(Refused(id, another), Code::kFailedPrecondition);
  spawner.AnswerDestroy();
  loop.Run();
  EXPECT_TRUE(first->made);
}

TEST_F(RollbackTest, OneThatIsRepeatedMeanwhileGetsTheSameAnswer) {
  for (const std::string key : {"", "k"}) {
    const std::string id = CreateRunning();
    const std::string snapshot = Take(id);
    const auto first = Begin(id, snapshot, key), building = Begin(id, snapshot, key);
    const std::string host_id = BuildNext();
    const auto recorded = Begin(id, snapshot, key);
    EXPECT_EQ(first->called + building->called + recorded->called, 0);
    spawner.AnswerDestroy();
    loop.Run();
    for (const auto& outcome : {first, building, recorded}) {
      ASSERT_EQ(outcome->called, 1);
      ASSERT_TRUE(outcome->made);
      EXPECT_EQ(outcome->made->state, State::kRunning);
      EXPECT_EQ(HostId(*outcome->made), host_id);
    }
    EXPECT_EQ(sandboxes->rollbacks.stats().ok, key.empty() ? 1U : 2U);
    EXPECT_TRUE(spawner.builds.empty());
    ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
    spawner.AnswerDestroy();
  }
}

// The client has had no answer and repeats its request to the next daemon.
TEST_F(RollbackTest, OneThatWasCutOffIsNotCarriedOutTwice) {
  for (const std::string key : {"", "k"}) {
    for (const bool deleted : {false, true}) {
      const std::string id = CreateRunning();
      const std::string snapshot = Take(id);
      const uint32_t slot = sandboxes->registry.Find(kCaller, id)->slot;
      Begin(id, snapshot, key);
      const std::string lost = BuildNext();
      spawner.destroys.clear();
      wire::Greeting hello;
      hello.sandboxes = {Host(id, slot),
                         Host(lost, sandboxes->registry.Find(kCaller, id)->slot, true)};
      Boot(hello);
      const auto waiting = Begin(id, snapshot, key);
      EXPECT_EQ(waiting->called, 0);
      spawner.AnswerDestroy();
      spawner.AnswerDestroy();
      loop.Run();
      const auto building = Begin(id, snapshot, key);
      EXPECT_EQ(building->called, 0);
      if (deleted) {
        ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
      }
      const std::string host_id = BuildNext();
      for (const auto& outcome : {waiting, building}) {
        ASSERT_EQ(outcome->called, 1);
        ASSERT_EQ(outcome->made.has_value(), !deleted);
        if (!deleted) {
          EXPECT_EQ(HostId(*outcome->made), host_id);
        }
      }
      if (!deleted) {
        ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
      }
      spawner.AnswerDestroy();
      loop.Run();
      EXPECT_EQ(sandboxes->registry.size(), 0U);
      store->RemoveKey("", key);
      Boot({});
    }
  }
}

TEST_F(RollbackTest, AKeyIsCarriedOutOnce) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  Begin(id, snapshot, "k");
  const std::string host_id = BuildNext();
  spawner.AnswerDestroy();
  loop.Run();
  for (const bool restarted : {false, true}) {
    if (restarted) {
      wire::Greeting hello;
      hello.sandboxes = {Host(host_id, sandboxes->registry.Find(kCaller, id)->slot)};
      Boot(hello);
    }
    const auto again = Begin(id, snapshot, "k");
    ASSERT_EQ(again->called, 1);
    ASSERT_TRUE(again->made);
    EXPECT_EQ(HostId(*again->made), host_id);
    EXPECT_EQ(Begin(id, snapshot, "k", "other")->made.error().code(), Code::kAlreadyExists);
  }
  EXPECT_TRUE(spawner.builds.empty());
  // Without a key the repeated request is a new one.
  Begin(id, snapshot);
  EXPECT_EQ(spawner.builds.size(), 1U);
}

TEST_F(RollbackTest, OneThatFailsLeavesTheVaultToItsSandbox) {
  // The spawner never answers, so the interceptor is not ready.
  config.authorities = "/dev/null";
  Boot({});
  Wanted wanted = Want();
  wanted.credential_proxy = true;
  wanted.spec.network.policy = netpolicy::Share(*netpolicy::ParsePolicy(
      R"({"defaultAction": "deny", "egress": [{"action": "allow", "target": "a.example"}]})"));
  const std::string id = CreateRunning(wanted);
  const std::string snapshot = Take(id);
  const uint32_t slot = sandboxes->registry.Find(kCaller, id)->slot;
  sandboxes->changes.SetVault(
      kCaller, id,
      *vault::ParseVault(
          R"({"credentials": [{"name": "k", "source": {"value": "v"}}], "bindings": [{"name": "b",)"
          R"("match": {"hosts": ["a.example"]}, "auth": {"type": "bearer", "credential": "k"}}]})"),
      [](const Status&) {});
  ASSERT_NE(network.interceptors[slot], nullptr);
  ASSERT_TRUE(
      store->db().Exec("CREATE TRIGGER full BEFORE UPDATE OF moves ON sandboxes "
                       "BEGIN SELECT RAISE(ABORT, 'full'); END"));
  const auto outcome = Begin(id, snapshot);
  const uint32_t next = spawner.builds.front().slot;
  BuildNext();
  EXPECT_FALSE(outcome->made);
  EXPECT_EQ(network.interceptors[next], nullptr);
  EXPECT_NE(network.interceptors[slot], nullptr);
  sandboxes->changes.RemoveVault(kCaller, id);
  EXPECT_EQ(network.interceptors[slot], nullptr);
}

TEST_F(RollbackTest, ABuildThatFailsLeavesItAsItWas) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  const Sandbox before = *sandboxes->registry.Find(kCaller, id);
  const auto outcome = Begin(id, snapshot);
  const std::string host_id = spawner.builds.front().id;
  spawner.AnswerBuild(Fail(Code::kInternal, "step mounts"));
  loop.Run();
  ASSERT_EQ(outcome->called, 1);
  EXPECT_EQ(outcome->made.error().message(), "step mounts");
  EXPECT_EQ(spawner.AnswerDestroy(), host_id);
  ExpectAsItWas(before);
  ASSERT_TRUE(sandboxes->copies.RemoveSnapshot(kCaller, snapshot));
  EXPECT_FALSE(sandboxes->layers.InUse(101));
}

TEST_F(RollbackTest, AStoreThatIsFullLeavesItAsItWas) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  const Sandbox before = *sandboxes->registry.Find(kCaller, id);
  // The second of the two writes fails.
  ASSERT_TRUE(
      store->db().Exec("CREATE TRIGGER full BEFORE UPDATE OF moves ON sandboxes "
                       "BEGIN SELECT RAISE(ABORT, 'full'); END"));
  const auto outcome = Begin(id, snapshot);
  ASSERT_EQ(spawner.builds.size(), 1U);
  const uint32_t slot = spawner.builds.front().slot;
  const std::string host_id = BuildNext();
  ASSERT_EQ(outcome->called, 1);
  EXPECT_FALSE(outcome->made);
  EXPECT_EQ(spawner.AnswerDestroy(), host_id);
  ExpectAsItWas(before);
  // The vault stays where it is, because the other slot is about to go to another sandbox.
  EXPECT_FALSE(network.interceptors.contains(slot));
}

TEST_F(RollbackTest, OneThatEndsMeanwhileHasEnded) {
  for (const bool deleted : {false, true}) {
    const std::string id = CreateRunning();
    const std::string snapshot = Take(id);
    const auto outcome = Begin(id, snapshot);
    if (deleted) {
      ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
    }
    if (!deleted) Ended(id, Exit(0));
    EXPECT_EQ(spawner.AnswerDestroy(), id);
    const std::string host_id = BuildNext();
    EXPECT_EQ(outcome->made.error().code(), Code::kFailedPrecondition);
    EXPECT_EQ(spawner.AnswerDestroy(), host_id);
    if (!deleted) {
      ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
    }
    EXPECT_EQ(sandboxes->registry.size(), 0U);
    EXPECT_TRUE(Stored().empty());
  }
}

TEST_F(RollbackTest, DeletedAfterTheRecordItGoesBehindItsFormerSelf) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  const auto outcome = Begin(id, snapshot);
  const std::string host_id = BuildNext();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  EXPECT_EQ(spawner.destroys.size(), 1U);
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_EQ(spawner.AnswerDestroy(), host_id);
  EXPECT_EQ(outcome->made.error().code(), Code::kFailedPrecondition);
  EXPECT_FALSE(HasStarted());
  EXPECT_TRUE(Stored().empty());
}

TEST_F(RollbackTest, APolicyThatIsSetMeanwhileHolds) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  const auto outcome = Begin(id, snapshot);
  const auto policy = netpolicy::Share({.default_action = netpolicy::Action::kDeny, .rules = {}});
  ASSERT_TRUE(sandboxes->changes.SetPolicy(kCaller, id, policy));
  BuildNext();
  spawner.AnswerDestroy();
  loop.Run();
  ASSERT_TRUE(outcome->made);
  EXPECT_EQ(outcome->made->spec.network.policy, policy);
  EXPECT_EQ(network.claimed[outcome->made->slot].policy, policy);
}

TEST_F(RollbackTest, ADaemonThatDiesBeforeTheRecordLeavesTheOld) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  const Sandbox before = *sandboxes->registry.Find(kCaller, id);
  Begin(id, snapshot);
  const std::string host_id = spawner.builds.front().id;
  wire::Greeting hello;
  hello.sandboxes = {Host(id, before.slot), Host(host_id, before.slot + 1)};
  Boot(hello);
  EXPECT_EQ(spawner.AnswerDestroy(), host_id);
  ExpectAsItWas(before);
  EXPECT_TRUE(spawner.destroys.empty());
}

TEST_F(RollbackTest, ADaemonThatDiesAfterTheRecordBuildsItOnceMore) {
  const std::string id = CreateRunning();
  const std::string snapshot = Take(id);
  const Sandbox before = *sandboxes->registry.Find(kCaller, id);
  Begin(id, snapshot);
  const std::string lost = BuildNext();
  const uint32_t slot = sandboxes->registry.Find(kCaller, id)->slot;
  spawner.destroys.clear();
  wire::Greeting hello;
  hello.sandboxes = {Host(id, before.slot), Host(lost, slot, true)};
  Boot(hello);
  // The rollback has to wait until both are destroyed.
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kReplacing);
  std::set<std::string> gone = {spawner.AnswerDestroy(), spawner.AnswerDestroy()};
  EXPECT_EQ(gone, (std::set<std::string>{id, lost}));
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_EQ(spawner.builds.front().plan->layers, (std::vector<wire::LayerId>{101, 2, 1}));
  const std::string host_id = BuildNext();
  EXPECT_NE(host_id, lost);
  EXPECT_TRUE(HasStarted());
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, State::kRunning);
  EXPECT_EQ(HostId(Stored().front()), host_id);
  EXPECT_EQ(Stored().front().state, State::kRunning);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->access_token, before.access_token);
}

TEST_F(RollbackTest, ASpawnerThatDiesAfterTheRecordIsAskedAgain) {
  for (const bool gone : {false, true}) {
    const std::string id = CreateRunning();
    const std::string snapshot = Take(id);
    const uint32_t slot = sandboxes->registry.Find(kCaller, id)->slot;
    const auto outcome = Begin(id, snapshot);
    const std::string host_id = BuildNext();
    spawner.AnswerDestroy(Fail(Code::kUnavailable, "the spawner is gone"));
    EXPECT_FALSE(HasStarted());
    wire::Greeting hello;
    hello.sandboxes = {Host(host_id, sandboxes->registry.Find(kCaller, id)->slot)};
    if (!gone) hello.sandboxes.push_back(Host(id, slot));
    sandboxes->reconciler.Reconcile(hello);
    if (!gone) {
      EXPECT_EQ(spawner.AnswerDestroy(), id);
    }
    loop.Run();
    EXPECT_TRUE(HasStarted());
    EXPECT_TRUE(outcome->made);
    ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
    EXPECT_EQ(spawner.AnswerDestroy(), host_id);
    ASSERT_TRUE(sandboxes->copies.RemoveSnapshot(kCaller, snapshot));
  }
}

}  // namespace
}  // namespace atl::sandbox
