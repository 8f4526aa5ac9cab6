#include "runtime/sandbox/create/isolation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/sandbox/copies/rollbacks.h"
#include "runtime/wire/plan.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

Code CodeOf(const Result<std::string>& chosen) {
  return chosen ? Code::kInternal : chosen.error().code();
}

TEST(Isolation, WordsOfRequests) {
  EXPECT_EQ(*ParseIsolation("namespace"), "namespace");
  EXPECT_EQ(*ParseIsolation("gvisor"), "gvisor");
  for (const char* word : {"microvm", "kata", "firecracker"}) {
    EXPECT_EQ(*ParseIsolation(word), "microvm");
  }
  for (const char* word : {"", "runc", "Kata", "namespace ", "namespaces"}) {
    EXPECT_EQ(CodeOf(ParseIsolation(word)), Code::kInvalidArgument) << word;
  }
}

TEST(Isolation, TheRequestChoosesAmongWhatThisHostHas) {
  const Isolation open({}, {"namespace", "gvisor"});
  EXPECT_EQ(*open.Choose(""), "namespace");
  EXPECT_EQ(*open.Choose("gvisor"), "gvisor");
  const auto missing = open.Choose("microvm");
  EXPECT_EQ(CodeOf(missing), Code::kUnimplemented);
  EXPECT_NE(missing.error().message().find("isolation microvm"), std::string::npos);
  EXPECT_NE(missing.error().message().find("namespace, gvisor"), std::string::npos);
}

TEST(Isolation, NothingIsWeakerThanTheOperatorAllows) {
  const std::vector<std::string> all = {"namespace", "gvisor", "microvm"};
  // Without a minimum the type is the minimum.
  const Isolation typed({.type = "gvisor", .allowed = {}, .minimum = ""}, all);
  EXPECT_EQ(*typed.Choose(""), "gvisor");
  EXPECT_EQ(*typed.Choose("microvm"), "microvm");
  EXPECT_EQ(CodeOf(typed.Choose("namespace")), Code::kPermissionDenied);
  const Isolation lax({.type = "gvisor", .allowed = {}, .minimum = "namespace"}, all);
  EXPECT_EQ(*lax.Choose("namespace"), "namespace");
  const Isolation listed({.type = "gvisor", .allowed = {"gvisor"}, .minimum = "namespace"}, all);
  EXPECT_EQ(*listed.Choose(""), "gvisor");
  EXPECT_EQ(CodeOf(listed.Choose("namespace")), Code::kPermissionDenied);
  EXPECT_EQ(CodeOf(listed.Choose("microvm")), Code::kPermissionDenied);
}

TEST(Isolation, RulesThatContradictThemselves) {
  EXPECT_TRUE(Isolation::CheckPolicy({}));
  EXPECT_FALSE(Isolation::CheckPolicy({.type = "namespace", .allowed = {}, .minimum = "gvisor"}));
  EXPECT_FALSE(Isolation::CheckPolicy({.type = "gvisor", .allowed = {"microvm"}, .minimum = ""}));
  EXPECT_TRUE(Isolation::CheckPolicy(
      {.type = "microvm", .allowed = {"gvisor", "microvm"}, .minimum = "gvisor"}));
}

TEST(Isolation, AHostWithoutTheTypeIsRefusedByName) {
  const Isolation isolation({.type = "gvisor", .allowed = {}, .minimum = ""}, {"namespace"});
  const Status type = isolation.CheckType();
  ASSERT_FALSE(type);
  EXPECT_NE(type.error().message().find("gvisor, only with: namespace"), std::string::npos);
}

class IsolationTest : public SandboxesTest {
 protected:
  // Starts a daemon on a host that has two tiers.
  void BootWith(const std::string& type, const std::string& minimum = "namespace",
                std::vector<std::string> tiers = {"namespace", "gvisor"}) {
    config.check.isolation = {.type = type, .allowed = {}, .minimum = minimum};
    config.check.tiers = std::move(tiers);
    pool_config.tier = type;
    Boot({});
  }
  std::string CreateIn(const std::string& tier) {
    Wanted wanted = Want();
    wanted.isolation = tier;
    return CreateRunning(wanted);
  }
};

TEST_F(IsolationTest, ASlotOfItsTierAndThePlanNamesIt) {
  BootWith("namespace");
  Wanted wanted = Want();
  wanted.isolation = "gvisor";
  Create(wanted);
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 1U);
  const wire::Plan& plan = *spawner.builds[0].plan;
  EXPECT_EQ(plan.tier, "gvisor");
  EXPECT_EQ(spawner.tiers.at(plan.slot), "gvisor");
  Create();
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 2U);
  EXPECT_EQ(spawner.builds[1].plan->tier, "namespace");
  EXPECT_EQ(spawner.tiers.at(spawner.builds[1].slot), "namespace");
}

TEST_F(IsolationTest, TheRecordKeepsIt) {
  BootWith("namespace");
  const std::string other = CreateIn("gvisor"), usual = CreateIn("");
  for (const Sandbox& stored : Stored()) {
    EXPECT_EQ(TierOf(stored.spec), stored.id == other ? "gvisor" : "namespace");
    // A record of the usual tier can be read by an earlier release.
    if (stored.id == usual) {
      EXPECT_EQ(stored.spec.isolation, "");
    }
  }
}

TEST_F(IsolationTest, ARefusedOneLeavesNothing) {
  BootWith("gvisor", "gvisor");
  Wanted wanted = Want();
  wanted.isolation = "namespace";
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kPermissionDenied);
  wanted.isolation = "microvm";
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kUnimplemented);
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

TEST_F(IsolationTest, AForkKeepsIt) {
  BootWith("namespace", "namespace", {"namespace", "microvm"});
  const std::string id = CreateIn("microvm");
  sandboxes->forks.Fork(kCaller, id, {.count = 1, .request_id = "r"}, [](const auto&) {});
  loop.Run();
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_EQ(spawner.builds[0].plan->tier, "microvm");
  EXPECT_EQ(spawner.tiers.at(spawner.builds[0].slot), "microvm");
}

TEST_F(IsolationTest, WhatCannotStandStillIsNeitherPausedNorCopied) {
  BootWith("namespace");
  const std::string id = CreateIn("gvisor");
  Code paused = Code::kInternal;
  sandboxes->pauses.Pause(kCaller, id,
                          [&](const Status& status) { paused = status.error().code(); });
  EXPECT_EQ(paused, Code::kUnimplemented);
  EXPECT_EQ(sandboxes->copies.TakeSnapshot(kCaller, id, "").error().code(), Code::kUnimplemented);
  bool forked = true;
  sandboxes->forks.Fork(kCaller, id, {.count = 1, .request_id = "r"},
                        [&](const auto& made) { forked = made.has_value(); });
  EXPECT_FALSE(forked);
  loop.Run();
  EXPECT_EQ(sandboxes->registry.Look(id)->state, State::kRunning);
}

TEST_F(IsolationTest, WhatCannotStandStillHasNoIdlePauseAndNoTemplate) {
  config.check.idle = {.after_seconds = 60};
  BootWith("gvisor");
  Wanted wanted = Want();
  wanted.spec.idle = {.after_seconds = 5};
  const auto refused = Create(wanted);
  EXPECT_EQ(refused->result.error().code(), Code::kInvalidArgument);
  EXPECT_NE(refused->result.error().message().find("isolation gvisor"), std::string::npos);
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  // An end stops no program for later.
  wanted.spec.idle = {.after_seconds = 5, .ends = true};
  const std::string ends = CreateRunning(wanted);
  EXPECT_TRUE(sandboxes->registry.Look(ends)->spec.idle);
  // The operator's default is for those that can be paused.
  EXPECT_FALSE(sandboxes->registry.Look(CreateIn(""))->spec.idle);
  EXPECT_TRUE(sandboxes->registry.Look(CreateIn("namespace"))->spec.idle);
  const auto kept = sandboxes->templates.Create(kCaller, {.image = "busybox", .stock = 1});
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code(), Code::kUnimplemented);
  EXPECT_TRUE(sandboxes->templates.Records(kCaller).empty());
}

TEST_F(IsolationTest, AForkOrRollbackOfWhatIsNoLongerAllowedIsRefused) {
  BootWith("namespace");
  const std::string id = CreateIn("");
  const auto taken = sandboxes->copies.TakeSnapshot(kCaller, id, "");
  ASSERT_TRUE(taken);
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  wire::Greeting hello;
  hello.sandboxes = {Present(id)};
  config.check.isolation = {.type = "gvisor", .allowed = {}, .minimum = "gvisor"};
  Boot(hello);
  std::optional<CreateError> refused;
  sandboxes->forks.Fork(kCaller, id, {.count = 1, .request_id = "r"},
                        [&](const auto& made) { refused = made.error(); });
  loop.Run();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), Code::kPermissionDenied);
  EXPECT_TRUE(refused->isolation);
  refused.reset();
  sandboxes->rollbacks.RollBack(kCaller, id, {taken->id, "", "f", "r"},
                                [&](const auto& made) { refused = made.error(); });
  loop.Run();
  ASSERT_TRUE(refused);
  EXPECT_TRUE(refused->isolation);
  EXPECT_TRUE(spawner.copies.empty());
}

TEST_F(IsolationTest, APoolsMemberOfAnotherTierIsNotClaimed) {
  BootWith("namespace");
  ASSERT_TRUE(sandboxes->pools.Create(
      kCaller, {.key = "warm", .image = "busybox", .capacity = {1, 1, 0, 10}}));
  std::vector<UniqueFd> execds;
  for (loop.Pass(50'000); !spawner.builds.empty(); loop.Pass(50'000)) {
    execds.push_back(spawner.AnswerBuild().control);
  }
  Wanted wanted = Want();
  wanted.spec.image.clear();
  wanted.spec.extensions[kPoolRef] = "warm";
  wanted.isolation = "gvisor";
  Create(wanted);
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_EQ(spawner.builds[0].plan->tier, "gvisor");
  EXPECT_EQ(sandboxes->pools.Find(kCaller, "warm")->available, 1U);
}

TEST_F(IsolationTest, WithoutTheTierASpawnerGetsNoRequest) {
  BootWith("namespace");
  sandboxes->check.isolation().SetAvailable({"namespace"});
  Wanted wanted = Want();
  wanted.isolation = "gvisor";
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kUnimplemented);
}

TEST(HostBudget, KeepsWhatMachinesTakeThatBootAhead) {
  HostBudget budget{.memory_budget = uint64_t{4} << 30, .pids_budget = 10'000};
  Spec member;
  member.isolation = "microvm";
  member.limits.memory_bytes = 256 << 20;
  member.limits.pids = 100;
  KeepFor(member, 2, &budget);
  // The wall of each takes 256 MiB and 256 processes.
  EXPECT_EQ(budget.memory_budget, (uint64_t{4} << 30) - 2 * (uint64_t{512} << 20));
  EXPECT_EQ(budget.pids_budget, 10'000U - 2 * 356);
  // Never 0, which is no limit.
  KeepFor(member, 64, &budget);
  EXPECT_EQ(budget.memory_budget, 1U);
  HostBudget unlimited;
  KeepFor(member, 64, &unlimited);
  EXPECT_EQ(unlimited.memory_budget, 0U);
}

}  // namespace
}  // namespace atl::sandbox
