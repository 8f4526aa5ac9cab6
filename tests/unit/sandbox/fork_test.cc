#include "runtime/sandbox/copies/forks.h"
#include "runtime/sandbox/record/environment.h"
#include "runtime/wire/plan.h"

#include <algorithm>

#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class ForkTest : public SandboxesTest {
 protected:
  struct Outcome {
    int called = 0;
    tl::expected<std::vector<Sandbox>, CreateError> made;
  };
  std::shared_ptr<Outcome> Begin(const std::string& id, size_t count, const std::string& key = "",
                                 const std::string& fingerprint = "f") {
    auto outcome = std::make_shared<Outcome>();
    sandboxes->forks.Fork(
        kCaller, id,
        {.count = count, .idempotency_key = key, .fingerprint = fingerprint, .request_id = "r"},
        [outcome](const tl::expected<std::vector<Sandbox>, CreateError>& made) {
          ++outcome->called;
          outcome->made = made;
        });
    loop.Run();
    return outcome;
  }
  std::shared_ptr<Outcome> Copied(std::shared_ptr<Outcome> outcome) {
    spawner.AnswerCopy();
    spawner.AnswerPublish();
    loop.Run();
    return outcome;
  }
  void BuildAll() {
    while (!spawner.builds.empty()) {
      plans.push_back(spawner.AnswerBuild().plan);
      loop.Run();
    }
  }
  // Expects that nothing of the children is left: no record, no layer, no reservation, no process.
  void ExpectNothingButTheParent(const std::string& id) {
    while (!spawner.builds.empty()) BuildAll();
    while (!spawner.destroys.empty()) spawner.AnswerDestroy();
    EXPECT_EQ(sandboxes->registry.size(), 1U);
    EXPECT_EQ(sandboxes->registry.All(kCaller), std::vector{sandboxes->registry.Find(kCaller, id)});
    EXPECT_EQ(Stored().size(), 1U);
    EXPECT_FALSE(sandboxes->layers.InUse(101));
  }
  std::vector<wire::Boxed<wire::Plan>> plans;
};

TEST_F(ForkTest, ChildrenHaveItsFilesAndItsSpecAndNothingElseOfIt) {
  Wanted wanted = Want();
  wanted.spec.env = {{"LANG", "de"}};
  wanted.metadata = {{"team", "ml"}};
  wanted.timeout_seconds = 600;
  wanted.secure_access = true;
  wanted.resource_limits = {{"memory", "64Mi"}};
  const std::string id = CreateRunning(wanted);
  const Sandbox parent = *sandboxes->registry.Find(kCaller, id);
  const auto outcome = Begin(id, 3);
  // Clients cannot see the children before their files have been copied.
  EXPECT_EQ(sandboxes->registry.All(kCaller).size(), 1U);
  const wire::CopyUpper asked = spawner.AnswerCopy();
  EXPECT_EQ(asked.id, id);
  EXPECT_FALSE(asked.lasting);
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_EQ(spawner.AnswerPublish(), 101U);
  loop.Run();
  BuildAll();
  ASSERT_EQ(outcome->called, 1);
  ASSERT_TRUE(outcome->made);
  ASSERT_EQ(outcome->made->size(), 3U);
  EXPECT_TRUE(snapshots->All(kCaller).empty());
  std::set<std::string> own = {parent.id, parent.access_token, parent.secure_token};
  for (const Sandbox& child : *outcome->made) {
    EXPECT_EQ(child.state, State::kRunning);
    EXPECT_EQ(child.layers, (std::vector<wire::LayerId>{101, 2, 1}));
    EXPECT_EQ(child.metadata, parent.metadata);
    EXPECT_EQ(child.expires_at_ms, parent.expires_at_ms);
    EXPECT_EQ(child.spec.limits.memory_bytes, 64U << 20);
    EXPECT_EQ(child.spec.network.sandbox, child.id);
    EXPECT_NE(child.slot, parent.slot);
    EXPECT_EQ(EnvironmentOf(child), EnvironmentOf(parent));
    EXPECT_EQ(sandboxes->registry.Find(kCaller, child.id)->state, State::kRunning);
    own.insert({child.id, child.access_token, child.secure_token});
  }
  EXPECT_EQ(own.size(), 12U);
  EXPECT_EQ(Stored().size(), 4U);
}

TEST_F(ForkTest, TheLayerGoesWithTheLastChild) {
  const std::string id = CreateRunning();
  const auto outcome = Copied(Begin(id, 2));
  BuildAll();
  ASSERT_TRUE(outcome->made);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  spawner.AnswerDestroy();
  for (const Sandbox& child : *outcome->made) {
    EXPECT_TRUE(sandboxes->layers.InUse(101));
    ASSERT_TRUE(sandboxes->endings.Delete(kCaller, child.id));
    spawner.AnswerDestroy();
  }
  EXPECT_FALSE(sandboxes->layers.InUse(101));
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

TEST_F(ForkTest, NoneIsRecordedBeforeAllAreBuilt) {
  const std::string id = CreateRunning();
  const auto outcome = Copied(Begin(id, 2));
  spawner.AnswerBuild();
  loop.Run();
  EXPECT_EQ(outcome->called, 0);
  EXPECT_EQ(Stored().size(), 1U);
  spawner.AnswerBuild();
  loop.Run();
  EXPECT_EQ(outcome->called, 1);
  EXPECT_EQ(Stored().size(), 3U);
}

TEST_F(ForkTest, ACopyThatFailsLeavesNone) {
  const std::string id = CreateRunning();
  const auto outcome = Begin(id, 3);
  spawner.AnswerCopy(Fail(Code::kInvalidArgument, "error resource_exhausted: no room for it\n"));
  ASSERT_EQ(outcome->called, 1);
  ASSERT_FALSE(outcome->made);
  EXPECT_EQ(outcome->made.error().message(), "no room for it");
  ExpectNothingButTheParent(id);
  EXPECT_EQ(images.dropped, std::vector<wire::LayerId>{101});
}

TEST_F(ForkTest, ABuildThatFailsLeavesNone) {
  // One child is built, one fails, one is being built, and one is queued, in each order.
  for (int failing = 0; failing < 4; ++failing) {
    const std::string id = CreateRunning();
    const auto outcome = Copied(Begin(id, 4));
    for (int i = 0; i < failing; ++i) {
      spawner.AnswerBuild();
      loop.Run();
    }
    spawner.AnswerBuild(Fail(Code::kInternal, "step mounts"));
    loop.Run();
    ASSERT_EQ(outcome->called, 1) << failing;
    ASSERT_FALSE(outcome->made);
    EXPECT_EQ(outcome->made.error().message(), "step mounts");
    ExpectNothingButTheParent(id);
    EXPECT_EQ(outcome->called, 1);
    ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
    spawner.AnswerDestroy();
  }
  EXPECT_TRUE(spawner.destroys.empty());
}

TEST_F(ForkTest, AStoreThatIsFullLeavesNone) {
  const std::string id = CreateRunning();
  const auto outcome = Copied(Begin(id, 2));
  spawner.AnswerBuild();
  loop.Run();
  ASSERT_TRUE(
      store->db().Exec("CREATE TRIGGER full BEFORE INSERT ON sandboxes WHEN "
                       "(SELECT count(*) FROM sandboxes) = 2 "
                       "BEGIN SELECT RAISE(ABORT, 'full'); END"));
  spawner.AnswerBuild();
  loop.Run();
  ASSERT_EQ(outcome->called, 1);
  EXPECT_FALSE(outcome->made);
  // A daemon that dies at this moment leaves no record either.
  EXPECT_EQ(Stored().size(), 1U);
  ExpectNothingButTheParent(id);
}

TEST_F(ForkTest, OneThatIsDeletedMeanwhileTakesTheOthersAlong) {
  for (const bool built : {false, true}) {
    const std::string id = CreateRunning();
    const auto outcome = Copied(Begin(id, 3));
    const std::string child = spawner.builds.front().id;
    if (built) spawner.AnswerBuild();
    loop.Run();
    ASSERT_TRUE(sandboxes->endings.Delete(kCaller, child));
    BuildAll();
    ASSERT_EQ(outcome->called, 1);
    ASSERT_FALSE(outcome->made);
    EXPECT_EQ(outcome->made.error().code(), Code::kFailedPrecondition);
    ExpectNothingButTheParent(id);
    ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
    spawner.AnswerDestroy();
  }
}

TEST_F(ForkTest, AFullQueueLeavesNone) {
  build_queue = 3;
  Boot({});
  const std::string id = CreateRunning();
  const auto outcome = Copied(Begin(id, 8));
  ASSERT_EQ(outcome->called, 1);
  ASSERT_FALSE(outcome->made);
  EXPECT_EQ(outcome->made.error().code(), Code::kResourceExhausted);
  ExpectNothingButTheParent(id);
}

TEST_F(ForkTest, TheBudgetIsForAllOfThem) {
  config.budget.sandboxes = 4;
  Boot({});
  const std::string id = CreateRunning();
  const auto refused = Begin(id, 4);
  ASSERT_FALSE(refused->made);
  EXPECT_EQ(refused->made.error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(spawner.copies.empty());
  const auto outcome = Copied(Begin(id, 3));
  BuildAll();
  EXPECT_TRUE(outcome->made);
}

TEST_F(ForkTest, WhatDoesNotLiveIsRefused) {
  EXPECT_EQ(Begin("nobody", 1)->made.error().code(), Code::kNotFound);
  const std::string id = CreateRunning();
  Ended(id, Exit(0));
  EXPECT_EQ(Begin(id, 1)->made.error().code(), Code::kFailedPrecondition);
  for (wire::LayerId layer = 3; images.image.layers.size() < wire::kMaxLayers; ++layer) {
    images.image.layers.push_back(layer);
  }
  EXPECT_EQ(Begin(CreateRunning(), 1)->made.error().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(spawner.copies.empty());
}

TEST_F(ForkTest, TheBytesOfForksCountAsThoseOfSnapshots) {
  snapshot_config.max_bytes = 4096;
  Boot({});
  const std::string id = CreateRunning();
  const auto outcome = Copied(Begin(id, 1));
  BuildAll();
  ASSERT_TRUE(outcome->made);
  const auto refused = Begin(id, 1);
  ASSERT_FALSE(refused->made);
  EXPECT_EQ(refused->made.error().error_number(), ENOSPC);
}

TEST_F(ForkTest, ARepeatedRequestGetsTheSameChildren) {
  const std::string id = CreateRunning();
  const auto first = Begin(id, 2, "key"), meanwhile = Begin(id, 2, "key");
  EXPECT_EQ(Begin(id, 1, "key", "other")->made.error().code(), Code::kAlreadyExists);
  Copied(first);
  BuildAll();
  EXPECT_TRUE(spawner.copies.empty());
  const auto ids = [](const std::shared_ptr<Outcome>& outcome) {
    std::set<std::string> all;
    for (const Sandbox& child : *outcome->made) all.insert(child.id);
    return all;
  };
  const auto expected = ids(first);
  EXPECT_EQ(expected.size(), 2U);
  EXPECT_EQ(ids(meanwhile), expected);
  EXPECT_EQ(ids(Begin(id, 2, "key")), expected);
  // The same after a restart.
  wire::Greeting hello;
  for (const Sandbox& sandbox : Stored()) hello.sandboxes.push_back(Present(sandbox.id));
  Boot(hello);
  EXPECT_EQ(ids(Begin(id, 2, "key")), expected);
  // The answer lists the remaining children, whichever has been deleted.
  const std::string gone = store->LoadKeys()->front().sandboxes.front();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, gone));
  auto left = expected;
  left.erase(gone);
  EXPECT_EQ(ids(Begin(id, 2, "key")), left);
  for (const std::string& child : left) ASSERT_TRUE(sandboxes->endings.Delete(kCaller, child));
  EXPECT_EQ(Begin(id, 2, "key")->made.error().code(), Code::kAlreadyExists);
}

TEST_F(ForkTest, AKeyOfAnEarlierReleaseNamesTheFirstChild) {
  const std::string id = CreateRunning();
  const auto first = Copied(Begin(id, 2, "key"));
  BuildAll();
  ASSERT_TRUE(store->db().Exec(
      "UPDATE idempotency_keys SET sandbox = substr(sandbox, 1, instr(sandbox, ' ') - 1)"));
  wire::Greeting hello;
  for (const Sandbox& sandbox : Stored()) hello.sandboxes.push_back(Present(sandbox.id));
  Boot(hello);
  EXPECT_EQ(Begin(id, 2, "key")->made->size(), 2U);
}

TEST_F(ForkTest, AFailedRequestMayBeMadeAgain) {
  const std::string id = CreateRunning();
  const auto failed = Begin(id, 1, "key");
  spawner.AnswerCopy(Fail(Code::kUnavailable, "gone"));
  EXPECT_FALSE(failed->made);
  const auto again = Copied(Begin(id, 1, "key"));
  BuildAll();
  EXPECT_TRUE(again->made);
}

TEST_F(ForkTest, VolumesAreItsParents) {
  Wanted wanted = Want();
  wire::Volume volume;
  volume.kind = wire::Volume::Kind::kNamed;
  volume.source = "data";
  volume.target = "/data";
  wanted.spec.volumes = {volume};
  wanted.mounts = {{.volume = volume, .delete_with_sandbox = true}};
  const auto created = Create(wanted);
  EXPECT_EQ(spawner.AnswerVolume(), "make data");
  loop.Run();
  spawner.AnswerBuild();
  ASSERT_TRUE(created->called && created->result);
  const auto outcome = Copied(Begin(created->result->id, 1));
  EXPECT_TRUE(spawner.volume_calls.empty());
  BuildAll();
  ASSERT_TRUE(outcome->made);
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans.front()->volumes, wanted.spec.volumes);
  // The layer stays for the child after the parent has been deleted.
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, created->result->id));
  spawner.AnswerDestroy();
  loop.Run();
  EXPECT_TRUE(spawner.volume_calls.empty());
}

}  // namespace
}  // namespace atl::sandbox
