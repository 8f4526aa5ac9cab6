// Creates whose image is still being imported.
#include "runtime/wire/plan.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class WaitingTest : public SandboxesTest {
 protected:
  static Wanted WantOf(const std::string& image) {
    Wanted wanted = Want();
    wanted.spec.image = image;
    return wanted;
  }
  PendingImports::Id Begin() {
    return imports->Begin("new:latest", [this] { return progress; });
  }
  // Creates a sandbox that waits for its image. Returns its id.
  std::string Waiting(Wanted wanted = WantOf("new")) {
    const auto answer = Create(std::move(wanted));
    EXPECT_TRUE(answer->called && answer->result);
    EXPECT_EQ(StateName(answer->result->state), StateName(State::kAwaiting));
    return answer->result->id;
  }
  void Imported(PendingImports::Id id) {
    images.imported = "new:latest";
    imports->End(id, {});
    loop.Run();
  }
  State StateOf(const std::string& id) { return sandboxes->registry.Find(kCaller, id)->state; }

  std::string progress = "1 of 9 bytes have arrived";
};

// An import may hang, and such a create may have no deadline of its own.
TEST_F(WaitingTest, ACreateWaitsAnHourForItsImage) {
  const auto import = Begin();
  const std::string id = Waiting();
  loop.Pass(1800 * kSecond);
  const std::string later = Waiting();
  loop.Pass(1799 * kSecond);
  EXPECT_EQ(StateOf(id), State::kAwaiting);
  loop.Pass(2 * kSecond);
  EXPECT_EQ(StateOf(id), State::kFailed);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->message,
            "image new:latest was not imported: the import takes longer than an hour and "
            "continues; create the sandbox again when the image is there");
  EXPECT_EQ(imports->waiting(), 1U);
  // The import goes on, for creates that came later.
  Imported(import);
  spawner.AnswerBuild();
  EXPECT_EQ(StateOf(later), State::kRunning);
  EXPECT_EQ(StateOf(id), State::kFailed);
}

TEST_F(WaitingTest, IsPendingUntilTheImageIsThere) {
  const auto import = Begin();
  const auto answer = Create(WantOf("new"));
  ASSERT_TRUE(answer->called && answer->result);
  const std::string id = answer->result->id;
  EXPECT_EQ(StateName(answer->result->state), StateName(State::kAwaiting));
  EXPECT_EQ(answer->result->reason, "IMAGE_IMPORTING");
  EXPECT_EQ(answer->result->message, progress);
  EXPECT_EQ(answer->result->spec.image, "new:latest");
  ASSERT_EQ(Stored().size(), 1U);
  EXPECT_EQ(StateName(Stored()[0].state), StateName(State::kAwaiting));
  EXPECT_TRUE(spawner.builds.empty());
  // Other creates do not wait.
  const std::string other = CreateRunning();
  EXPECT_EQ(StateOf(other), State::kRunning);

  progress = "2 of 9 bytes have arrived";
  loop.Pass(kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->message, progress);

  Imported(import);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reason, "CONTAINER_STARTING");
  const auto build = spawner.AnswerBuild();
  EXPECT_EQ(StateOf(id), State::kRunning);
  for (const Sandbox& stored : Stored()) {
    if (stored.id != id) continue;
    EXPECT_EQ(stored.state, State::kRunning);
    EXPECT_EQ(stored.layers, images.image.layers);
    EXPECT_EQ(stored.image_digest, images.image.digest);
  }
  EXPECT_TRUE(sandboxes->layers.InUse(1));
}

TEST_F(WaitingTest, AnImageThatNobodyImportsIsUnknown) {
  const auto import = Begin();
  EXPECT_EQ(Create(WantOf("other"))->result.error().code(), Code::kNotFound);
  imports->End(import, Fail(Code::kInvalidArgument, "no archive"));
  EXPECT_EQ(Create(WantOf("new"))->result.error().code(), Code::kNotFound);
  EXPECT_TRUE(Stored().empty());
}

TEST_F(WaitingTest, WhatIsWrongWithTheRestIsSaidAtOnce) {
  Begin();
  Wanted wanted = WantOf("new");
  wanted.resource_limits = {{"memory", "1"}};
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kInvalidArgument);
}

TEST_F(WaitingTest, AFailedImportIsAFailureThatCanBeRead) {
  const auto import = Begin();
  const std::string id = Waiting();
  imports->End(import, Fail(Code::kInvalidArgument, "no archive"));
  loop.Run();
  EXPECT_EQ(StateName(StateOf(id)), StateName(State::kFailed));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reason, "PROVISIONING_ERROR");
  EXPECT_NE(sandboxes->registry.Find(kCaller, id)->message.find("no archive"), std::string::npos);
  EXPECT_EQ(StateName(Stored().at(0).state), StateName(State::kFailed));
  EXPECT_TRUE(sandboxes->endings.Delete(kCaller, id));
  loop.Run();
  EXPECT_TRUE(Stored().empty());
}

TEST_F(WaitingTest, TheImageMayBeForAnotherMachine) {
  const auto import = Begin();
  const std::string id = Waiting();
  images.image.config.architecture = "arm64";
  Imported(import);
  EXPECT_EQ(StateName(StateOf(id)), StateName(State::kFailed));
  EXPECT_NE(sandboxes->registry.Find(kCaller, id)->message.find("is for arm64"), std::string::npos);
}

TEST_F(WaitingTest, ABuildThatFailsIsAFailureAsWell) {
  const auto import = Begin();
  const std::string id = Waiting();
  Imported(import);
  spawner.AnswerBuild(Fail(Code::kInternal, "step overlay: mount: no"));
  loop.Run();
  EXPECT_EQ(StateName(StateOf(id)), StateName(State::kFailed));
  EXPECT_NE(sandboxes->registry.Find(kCaller, id)->message.find("step overlay"), std::string::npos);
  spawner.AnswerDestroy();
  loop.Run();
  EXPECT_FALSE(sandboxes->layers.InUse(1));
}

TEST_F(WaitingTest, AnotherAttemptMaySucceed) {
  const auto first = Begin();
  const auto second = Begin();
  const std::string id = Waiting();
  imports->End(first, Fail(Code::kInvalidArgument, "no archive"));
  EXPECT_EQ(StateName(StateOf(id)), StateName(State::kAwaiting));
  Imported(second);
  spawner.AnswerBuild();
  EXPECT_EQ(StateOf(id), State::kRunning);
}

TEST_F(WaitingTest, CanBeDeletedMeanwhile) {
  const auto import = Begin();
  const std::string id = Waiting();
  EXPECT_TRUE(sandboxes->endings.Delete(kCaller, id));
  loop.Run();
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id), nullptr);
  EXPECT_TRUE(sandboxes->registry.IsGone(kCaller, id));
  EXPECT_TRUE(Stored().empty());
  Imported(import);
  EXPECT_TRUE(spawner.builds.empty());
}

TEST_F(WaitingTest, ItsTimeRunsMeanwhile) {
  Begin();
  Wanted wanted = WantOf("new");
  wanted.timeout_seconds = 60;
  const std::string id = Waiting(wanted);
  loop.Pass(61 * kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id), nullptr);
  EXPECT_TRUE(Stored().empty());
}

TEST_F(WaitingTest, ADaemonThatStartsHasNoImport) {
  Begin();
  const std::string id = Waiting();
  Boot({});
  ASSERT_NE(sandboxes->registry.Find(kCaller, id), nullptr);
  EXPECT_EQ(StateName(StateOf(id)), StateName(State::kFailed));
  EXPECT_NE(sandboxes->registry.Find(kCaller, id)->message.find("the daemon ended"),
            std::string::npos);
}

TEST_F(WaitingTest, NorWhatItsPredecessorHadBegunToBuild) {
  const auto import = Begin();
  const std::string id = Waiting();
  Imported(import);
  wire::Greeting hello;
  hello.sandboxes = {Present(id)};
  ASSERT_NE(hello.sandboxes[0].slot, 0U);
  spawner.builds.clear();
  Boot(hello);
  loop.Run();
  EXPECT_EQ(StateName(StateOf(id)), StateName(State::kFailed));
  ASSERT_EQ(spawner.destroys.size(), 1U);
  EXPECT_EQ(spawner.destroys.front().first, id);
}

TEST_F(WaitingTest, ARepeatedRequestGetsTheSame) {
  const auto import = Begin();
  Wanted wanted = WantOf("new");
  wanted.idempotency_key = "key";
  wanted.fingerprint = "body";
  const std::string id = Waiting(wanted);
  EXPECT_EQ(Waiting(wanted), id);
  imports->End(import, Fail(Code::kInvalidArgument, "no archive"));
  loop.Run();
  const auto again = Create(wanted);
  ASSERT_TRUE(again->result);
  EXPECT_EQ(again->result->id, id);
  EXPECT_EQ(StateName(again->result->state), StateName(State::kFailed));
}

TEST_F(WaitingTest, AnImportThatEndsWhileVolumesAreMadeIsNotMissed) {
  const auto import = Begin();
  Wanted wanted = WantOf("new");
  wanted.mounts.resize(1);
  wanted.mounts[0].volume = {wire::Volume::Kind::kNamed, "data", "", "/data", false};
  const auto answer = Create(wanted);
  Imported(import);
  EXPECT_FALSE(answer->called);
  EXPECT_EQ(spawner.AnswerVolume(), "make data");
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 1U);
  const auto build = spawner.AnswerBuild();
  EXPECT_EQ(build.plan->layers, images.image.layers);
  ASSERT_TRUE(answer->called && answer->result);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, answer->result->id));
  EXPECT_TRUE(sandboxes->layers.InUse(1));
  spawner.AnswerDestroy();
  EXPECT_FALSE(sandboxes->layers.InUse(1));
}

TEST_F(WaitingTest, WhatMayBePulledIsPulledOnceForAll) {
  puller.pullable = "new:latest";
  Wanted wanted = WantOf("new");
  wanted.registry_as = {"me", "secret"};
  const std::string first = Waiting(wanted);
  const std::string second = Waiting();
  EXPECT_EQ(sandboxes->registry.Find(kCaller, first)->message, "1 MiB of 9 MiB have arrived");
  ASSERT_EQ(puller.pulls.size(), 1U);
  EXPECT_EQ(puller.pulls[0].name, "new:latest");
  EXPECT_EQ(puller.pulls[0].username, "me");
  images.imported = "new:latest";
  puller.pulls[0].done({});
  loop.Run();
  spawner.AnswerBuild();
  loop.Run();
  spawner.AnswerBuild();
  EXPECT_EQ(StateOf(first), State::kRunning);
  EXPECT_EQ(StateOf(second), State::kRunning);
  CreateRunning();
  EXPECT_EQ(puller.pulls.size(), 1U);
}

TEST_F(WaitingTest, APullThatFailsIsTriedAgainByTheNextCreate) {
  puller.pullable = "new:latest";
  const std::string id = Waiting();
  puller.pulls.at(0).done(Fail(Code::kPermissionDenied, "status 401"));
  loop.Run();
  EXPECT_EQ(StateName(StateOf(id)), StateName(State::kFailed));
  EXPECT_NE(sandboxes->registry.Find(kCaller, id)->message.find("status 401"), std::string::npos);
  Waiting();
  EXPECT_EQ(puller.pulls.size(), 2U);
}

TEST_F(WaitingTest, NothingIsPulledForACreateThatIsRefused) {
  EXPECT_EQ(Create(WantOf("new"))->result.error().code(), Code::kNotFound);
  puller.pullable = "new:latest";
  Wanted wanted = WantOf("new");
  wanted.resource_limits = {{"memory", "1"}};
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kInvalidArgument);
  puller.full = true;
  EXPECT_EQ(Create(WantOf("new"))->result.error().code(), Code::kUnavailable);
  EXPECT_TRUE(puller.pulls.empty());
}

TEST_F(WaitingTest, TheyAreBounded) {
  build_queue = 2;
  Boot({});
  Begin();
  Waiting();
  Waiting();
  EXPECT_EQ(Create(WantOf("new"))->result.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(Stored().size(), 2U);
}

}  // namespace
}  // namespace atl::sandbox
