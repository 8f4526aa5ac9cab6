#include "runtime/sandbox/sandboxes.h"

#include <sys/socket.h>

#include <filesystem>
#include <set>

#include "runtime/base/sandbox_id.h"
#include "runtime/wire/plan.h"
#include "tests/unit/sandbox/sample.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

TEST_F(SandboxesTest, CreateAnswersWhenBuiltAndRecorded) {
  const auto answer = Create();
  EXPECT_FALSE(answer->called);
  EXPECT_TRUE(Stored().empty());
  ASSERT_EQ(spawner.builds.size(), 1U);
  const std::string id = spawner.builds[0].id;
  EXPECT_EQ(StateName(sandboxes->registry.Find(kCaller, id)->state), StateName(State::kAwaiting));
  EXPECT_TRUE(SocketExists(id));
  const auto build = spawner.AnswerBuild();
  ASSERT_TRUE(answer->called);
  ASSERT_TRUE(answer->result);
  EXPECT_TRUE(ValidSandboxId(answer->result->id));
  EXPECT_EQ(answer->result->state, State::kRunning);
  EXPECT_EQ(answer->result->spec.image, "busybox:latest");
  EXPECT_EQ(build.plan->layers, (std::vector<wire::LayerId>{2, 1}));
  EXPECT_EQ(build.plan->limits.pids, 512U);
  ASSERT_EQ(Stored().size(), 1U);
  EXPECT_EQ(Stored()[0].state, State::kRunning);
  EXPECT_EQ(Stored()[0].slot, build.slot);
}

TEST_F(SandboxesTest, ASpecIsKeptWhole) {
  Wanted wanted = Want();
  Fill().Set(wanted.spec);
  wanted.spec.image = "busybox:latest";
  wanted.spec.snapshot_id.clear();  // would replace the image
  wanted.spec.template_id.clear();  // would replace it, too
  wanted.spec.platform = Platform{"linux", "amd64"};
  wanted.resource_requests = {{"cpu", "20m"}, {"memory", "8Mi"}};
  CreateRunning(wanted);
  const Sandbox stored = Stored().at(0);
  // Values that the checks have set.
  wanted.spec.network.sandbox = stored.id;
  wanted.spec.network.tenant = stored.tenant;
  wanted.spec.limits = stored.spec.limits;
  wanted.spec.isolation = stored.spec.isolation;
  wanted.spec.reserved = {.memory_bytes = 8 << 20, .cpu_millis = 20};
  EXPECT_EQ(TextsOf(stored.spec), TextsOf(wanted.spec));
  EXPECT_EQ(stored.spec.limits.pids, 512U);
}

TEST_F(SandboxesTest, TheStartMessageIsThereBeforeTheBuild) {
  Create();
  char head[4];
  EXPECT_EQ(::recv(spawner.builds[0].control.get(), head, sizeof head, MSG_DONTWAIT), 4);
}

TEST_F(SandboxesTest, AnUnknownImageIsNotFoundAndLeavesNothing) {
  Wanted wanted = Want();
  wanted.spec.image = "nope";
  const auto answer = Create(wanted);
  ASSERT_TRUE(answer->called);
  EXPECT_EQ(answer->result.error().code(), Code::kNotFound);
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

TEST_F(SandboxesTest, BadSpecsAreInvalid) {
  std::vector<Wanted> bad(9, Want());
  bad[0].spec.entrypoint = {""};
  bad[1].spec.entrypoint = {std::string("a\0b", 3)};
  bad[2].spec.env = {{"A=B", "x"}};
  bad[3].spec.env = {{"", "x"}};
  bad[4].spec.env = {{"A", std::string(128 << 10, 'x')}};
  for (int i = 0; i < 5; ++i)
    bad[5].spec.env["E" + std::to_string(i)] = std::string(120 << 10, 'x');
  bad[6].timeout_seconds = INT64_MAX;
  bad[7].spec.platform = Platform{"windows", "amd64"};
  bad[8].spec.platform = Platform{"linux", "arm64"};
  for (size_t i = 0; i < bad.size(); ++i) {
    const auto answer = Create(bad[i]);
    ASSERT_TRUE(answer->called) << i;
    ASSERT_FALSE(answer->result) << i;
    EXPECT_EQ(answer->result.error().code(), Code::kInvalidArgument) << i;
  }
  EXPECT_TRUE(spawner.builds.empty());
}

TEST_F(SandboxesTest, AnImageForAnotherMachineIsRefused) {
  images.image.config.architecture = "arm64";
  EXPECT_EQ(Create()->result.error().code(), Code::kInvalidArgument);
}

TEST_F(SandboxesTest, AFailedBuildLeavesNothing) {
  const auto answer = Create();
  const std::string id = spawner.builds[0].id;
  const uint32_t slot = spawner.builds[0].slot;
  spawner.AnswerBuild(Fail(Code::kNotFound, "step overlay: no layer"));
  ASSERT_TRUE(answer->called);
  // The client is not to blame, whatever code the spawner gives.
  EXPECT_EQ(answer->result.error().code(), Code::kInternal);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id), nullptr);
  EXPECT_FALSE(SocketExists(id));
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  loop.Run();
  EXPECT_EQ(network.detached, (std::vector<uint32_t>{slot}));
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  EXPECT_FALSE(sandboxes->layers.InUse(1));
  EXPECT_TRUE(admission->idle());
}

TEST_F(SandboxesTest, ASlotThatWasLostIsReplaced) {
  const auto answer = Create();
  const uint32_t lost = spawner.builds[0].slot;
  spawner.AnswerBuild(Fail(Code::kFailedPrecondition, "step check: slot: not prepared"));
  loop.Run();
  ASSERT_FALSE(answer->called);
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_NE(spawner.builds[0].slot, lost);
  EXPECT_EQ(network.detached, (std::vector<uint32_t>{lost}));
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_TRUE(SocketExists(answer->result->id));
  EXPECT_TRUE(admission->idle());
}

TEST_F(SandboxesTest, SlotsThatAreAlwaysLostEndTheCreate) {
  const auto answer = Create();
  for (int i = 0; i < 200 && !answer->called; ++i) {
    ASSERT_EQ(spawner.builds.size(), 1U);
    spawner.AnswerBuild(Fail(Code::kFailedPrecondition, "step check: slot: not prepared"));
    loop.Pass(100'000);
  }
  ASSERT_TRUE(answer->called);
  EXPECT_EQ(answer->result.error().code(), Code::kInternal);
  EXPECT_TRUE(admission->idle());
}

TEST_F(SandboxesTest, ARecordThatCannotBeWrittenIsNoSandbox) {
  // Another connection holds the database's write lock.
  sqlite::Options impatient;
  impatient.busy_timeout_ms = 0;
  auto other = sqlite::Db::Open(directory + ".db", impatient);
  ASSERT_TRUE(other);
  const auto answer = Create();
  ASSERT_TRUE(other->Exec("DROP TABLE sandboxes"));
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called);
  EXPECT_FALSE(answer->result);
  spawner.AnswerDestroy();
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

// Adds a volume that is to be created for the sandbox.
Wanted WithVolume(Wanted wanted) {
  VolumeMount mount;
  mount.volume = {wire::Volume::Kind::kNamed, "data", "", "/data", false};
  wanted.mounts = {mount};
  wanted.spec.volumes = {mount.volume};
  return wanted;
}

TEST_F(SandboxesTest, ARefusedCreateAcquiresNothing) {
  Wanted wanted = WithVolume(Want());
  wanted.idempotency_key = "k";
  wanted.spec.image = "nope";
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kNotFound);
  wanted.spec.image = "busybox";
  wanted.timeout_seconds = INT64_MAX;
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(spawner.volume_calls.empty());
  EXPECT_TRUE(volumes->List(kCaller).empty());
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  // The key is free.
  wanted.timeout_seconds = 100;
  wanted.fingerprint = "another";
  EXPECT_FALSE(Create(wanted)->called);
}

TEST_F(SandboxesTest, ACreateThatCannotHaveItsVolumesGivesAllBack) {
  config.budget.sandboxes = 1;
  Boot({});
  Wanted wanted = WithVolume(Want());
  wanted.idempotency_key = "k";
  const auto first = Create(wanted), second = Create(wanted);
  // Clients cannot see the sandbox yet, but its resources are reserved.
  EXPECT_TRUE(sandboxes->registry.All(kCaller).empty());
  EXPECT_EQ(Create()->result.error().code(), Code::kResourceExhausted);
  ASSERT_EQ(spawner.volume_calls.size(), 1U);
  EXPECT_EQ(spawner.AnswerVolume(Fail(Code::kResourceExhausted, "disk full")), "make data");
  ASSERT_TRUE(first->called && second->called);
  EXPECT_EQ(first->result.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(second->result.error().message(), first->result.error().message());
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  EXPECT_FALSE(sandboxes->layers.InUse(1));
  EXPECT_TRUE(Stored().empty());
  EXPECT_EQ(sandboxes->creates.stats().origins[0].error, 0U);
  // The key and the place are free again.
  const auto third = Create(wanted);
  ASSERT_EQ(spawner.volume_calls.size(), 1U);
  EXPECT_EQ(spawner.AnswerVolume(), "make data");
  loop.Run();
  spawner.AnswerBuild();
  ASSERT_TRUE(third->result);
  EXPECT_EQ(volumes->Find(kCaller, "data")->used_by, std::vector<std::string>{third->result->id});
}

TEST_F(SandboxesTest, TwoAreBuiltAtOnce) {
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(Create());
  EXPECT_EQ(spawner.builds.size(), 2U);
  EXPECT_EQ(admission->waiting(), 3U);
  while (!spawner.builds.empty()) {
    EXPECT_LE(spawner.builds.size(), 2U);
    spawner.AnswerBuild();
    loop.Run();
  }
  for (const auto& answer : answers) EXPECT_TRUE(answer->called && answer->result);
  EXPECT_EQ(Stored().size(), 5U);
}

TEST_F(SandboxesTest, PastTheQueueIsTooMany) {
  build_queue = 1;
  Boot({});
  Create();
  Create();
  Create();
  const auto refused = Create();
  ASSERT_TRUE(refused->called);
  EXPECT_EQ(refused->result.error().code(), Code::kResourceExhausted);
  loop.Run();
  EXPECT_EQ(sandboxes->registry.size(), 3U);
}

TEST_F(SandboxesTest, DeleteIsAtOnceInvisibleAndThenGone) {
  const std::string id = CreateRunning();
  const uint32_t slot = sandboxes->registry.Find(kCaller, id)->slot;
  const int collected = images.collected;
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id), nullptr);
  EXPECT_TRUE(sandboxes->registry.All(kCaller).empty());
  EXPECT_FALSE(SocketExists(id));
  ASSERT_EQ(Stored().size(), 1U);
  EXPECT_EQ(Stored()[0].state, State::kStopping);
  EXPECT_EQ(sandboxes->endings.Delete(kCaller, id).error().code(), Code::kNotFound);
  EXPECT_TRUE(network.detached.empty());  // the network stays guarded while the sandbox lives
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_EQ(network.detached, (std::vector<uint32_t>{slot}));
  EXPECT_TRUE(Stored().empty());
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  EXPECT_EQ(images.collected, collected + 1);
  EXPECT_FALSE(images.layer_1_in_use);
}

TEST_F(SandboxesTest, DestroyIsTriedAgain) {
  const std::string id = CreateRunning();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  spawner.AnswerDestroy(Fail(Code::kInternal, "busy"));
  EXPECT_TRUE(spawner.destroys.empty());
  EXPECT_EQ(Stored().size(), 1U);
  loop.Pass(6 * kSecond);
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_TRUE(Stored().empty());
}

TEST_F(SandboxesTest, DeletedWhileBuiltIsDestroyedAfterwards) {
  const auto answer = Create();
  const std::string id = spawner.builds[0].id;
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  EXPECT_TRUE(spawner.destroys.empty());
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called);
  EXPECT_EQ(answer->result.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  EXPECT_TRUE(Stored().empty());
}

TEST_F(SandboxesTest, DeletedWhileQueuedIsNeverBuilt) {
  Create();
  Create();
  const auto queued = Create();
  std::string id;
  for (const Sandbox* s : sandboxes->registry.All(kCaller)) {
    if (s->slot == 0) id = s->id;
  }
  ASSERT_FALSE(id.empty());
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  spawner.AnswerBuild();
  spawner.AnswerBuild();
  loop.Run();
  EXPECT_TRUE(spawner.builds.empty());
  ASSERT_TRUE(queued->called);
  EXPECT_FALSE(queued->result);
  EXPECT_EQ(sandboxes->registry.size(), 2U);
  EXPECT_EQ(spawner.dropped.size(), 1U);  // the slot that it got was not used
}

TEST_F(SandboxesTest, AMissingEntrypointFails) {
  const std::string id = CreateRunning();
  ReportFailure("exec /nope: No such file or directory");
  loop.Poll();
  EXPECT_EQ(StateName(sandboxes->registry.Find(kCaller, id)->state),
            StateName(State::kRunning));  // reads the last output first
  loop.Pass(1'000'000);
  const Sandbox* s = sandboxes->registry.Find(kCaller, id);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(StateName(s->state), StateName(State::kFailed));
  EXPECT_EQ(s->reason, "ENTRYPOINT_START_FAILED");
  EXPECT_NE(s->message.find("/nope"), std::string::npos);
  spawner.AnswerDestroy();
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->slot, 0U);
  Ended(id, Exit(127));  // a late exit changes nothing
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reason, "ENTRYPOINT_START_FAILED");
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  loop.Run();
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

TEST_F(SandboxesTest, TheReportBeatsTheExitThatOvertookIt) {
  const std::string id = CreateRunning();
  ReportFailure("no such user");
  Ended(id, Exit(126));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reason, "ENTRYPOINT_START_FAILED");
}

TEST_F(SandboxesTest, AnExitThatOvertookTheBuildCountsAfterIt) {
  const auto answer = Create();
  const std::string id = spawner.builds[0].id;
  Ended(id, Exit(0));
  EXPECT_EQ(StateName(sandboxes->registry.Find(kCaller, id)->state), StateName(State::kAwaiting));
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_EQ(StateName(sandboxes->registry.Find(kCaller, id)->state), StateName(State::kTerminated));
}

TEST_F(SandboxesTest, ExitsAreKeptWithTheirCause) {
  struct Case {
    int status;
    bool oom;
    bool known;
    State state;
    const char* reason;
    const char* words;
  };
  const Case cases[] = {
      {Exit(0), false, true, State::kTerminated, "CONTAINER_EXITED", "exit code 0"},
      {Exit(3), false, true, State::kFailed, "CONTAINER_EXITED_ERROR", "exit code 3"},
      {9, false, true, State::kFailed, "CONTAINER_EXITED_ERROR", "signal 9"},
      {9, true, true, State::kFailed, "CONTAINER_EXITED_ERROR", "out of memory"},
      {0, false, false, State::kFailed, "CONTAINER_EXITED_ERROR", "not known"},
  };
  for (const Case& c : cases) {
    const std::string id = CreateRunning();
    Ended(id, c.status, c.oom, c.known);
    Ended(id, c.status, c.oom, c.known);  // the spawner repeats itself
    const Sandbox* s = sandboxes->registry.Find(kCaller, id);
    EXPECT_EQ(StateName(s->state), StateName(c.state));
    EXPECT_EQ(s->reason, c.reason);
    EXPECT_NE(s->message.find(c.words), std::string::npos) << s->message;
    EXPECT_EQ(spawner.AnswerDestroy(), id);
    EXPECT_TRUE(spawner.destroys.empty());
    EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->slot, 0U);
  }
  EXPECT_EQ(Stored().size(), std::size(cases));
}

TEST_F(SandboxesTest, WhatAClientStopsHasNotFailed) {
  for (const bool oom : {false, true}) {
    const std::string id = CreateRunning();
    sandboxes->endings.Stopping(kCaller, id);
    Ended(id, Exit(143), oom);
    EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->state, oom ? State::kFailing : State::kEnding);
    EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reason,
              oom ? "CONTAINER_EXITED_ERROR" : "CONTAINER_STOPPED");
    EXPECT_TRUE(sandboxes->registry.Find(kCaller, id)->message.starts_with("exit code 143"));
  }
}

TEST_F(SandboxesTest, WhatIsLostIsCounted) {
  const std::string id = CreateRunning();
  Boot({});
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->reason, kSandboxLost);
  EXPECT_EQ(sandboxes->endings.ends()[static_cast<size_t>(End::kLost)], 1U);
}

TEST_F(SandboxesTest, WhoFollowsSeesAWholeLife) {
  const std::string id = CreateRunning();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  ASSERT_EQ(history->FeedOf(kCaller).recent.size(), 2U);
  EXPECT_EQ(history->FeedOf(kCaller).recent[0].event.kind, "Running");
  EXPECT_EQ(history->FeedOf(kCaller).recent[1].event.kind, kDeletedEvent);
  EXPECT_EQ(history->FeedOf(kCaller).recent[1].event.reason, "USER_DELETE");
  EXPECT_EQ(history->FeedOf(kCaller).last, 2U);
}

TEST_F(SandboxesTest, ExpiresAndRenews) {
  Wanted wanted = Want();
  wanted.timeout_seconds = 60;
  const std::string id = CreateRunning(wanted);
  EXPECT_EQ(*sandboxes->registry.Find(kCaller, id)->expires_at_ms,
            sandboxes->registry.Find(kCaller, id)->created_at_ms + 60'000);
  loop.Pass(59 * kSecond);
  ASSERT_TRUE(sandboxes->changes.Renew(kCaller, id, clock.unix_ms + 10'000));
  EXPECT_EQ(*Stored()[0].expires_at_ms, clock.unix_ms + 10'000);
  loop.Pass(9 * kSecond);
  EXPECT_NE(sandboxes->registry.Find(kCaller, id), nullptr);
  loop.Pass(2 * kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id), nullptr);
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_EQ(sandboxes->endings.ends()[static_cast<size_t>(End::kExpired)], 1U);
}

TEST_F(SandboxesTest, RenewRefusals) {
  const std::string id = CreateRunning();
  EXPECT_EQ(sandboxes->changes.Renew(kCaller, "x", clock.unix_ms + 1).error().code(),
            Code::kNotFound);
  EXPECT_EQ(sandboxes->changes.Renew(kCaller, id, clock.unix_ms).error().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(sandboxes->changes.Renew(kCaller, id, clock.unix_ms + 1).error().code(),
            Code::kFailedPrecondition);
}

TEST_F(SandboxesTest, ARestartAdoptsFinishesAndForgets) {
  Wanted wanted = Want();
  wanted.timeout_seconds = 600;
  const std::string running = CreateRunning(wanted);
  const std::string deleted = CreateRunning();
  const std::string ended = CreateRunning();
  const std::string lost = CreateRunning();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, deleted));
  wire::Greeting hello;
  const uint32_t deleted_slot = Stored()[0].slot;
  (void)deleted_slot;
  hello.sandboxes.push_back(Present(running));
  hello.sandboxes.push_back(Present(ended));
  hello.sandboxes.back().exited = true;
  hello.sandboxes.back().wait_status = Exit(1);
  wire::SandboxRecord orphan;
  orphan.id = NewSandboxId();
  orphan.slot = 40;
  hello.sandboxes.push_back(orphan);
  const std::string stray = directory + "/" + NewSandboxId() + ".sock";
  std::filesystem::copy_file("/proc/self/comm", stray);
  spawner.destroys.clear();
  Boot(hello);

  EXPECT_EQ(sandboxes->registry.Find(kCaller, running)->state, State::kRunning);
  EXPECT_TRUE(SocketExists(running));
  EXPECT_FALSE(std::filesystem::exists(stray));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, deleted), nullptr);
  EXPECT_EQ(StateName(sandboxes->registry.Find(kCaller, ended)->state), StateName(State::kFailed));
  EXPECT_EQ(StateName(sandboxes->registry.Find(kCaller, lost)->state),
            StateName(State::kTerminated));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, lost)->reason, "SANDBOX_LOST");
  std::set<std::string> destroyed;
  while (!spawner.destroys.empty()) destroyed.insert(spawner.AnswerDestroy());
  EXPECT_EQ(destroyed, (std::set<std::string>{deleted, ended, lost, orphan.id}));
  EXPECT_EQ(Stored().size(), 3U);
  EXPECT_EQ(network.recovered.size(), 3U);
  // The restarted daemon keeps the deadline.
  loop.Pass(601 * kSecond);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, running), nullptr);
}

TEST_F(SandboxesTest, ANewSpawnerIsReconciledWith) {
  const std::string kept = CreateRunning();
  const std::string deleted = CreateRunning();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, deleted));
  const auto building = Create();
  // The old spawner ends: every call fails.
  spawner.AnswerBuild(Fail(Code::kUnavailable, "gone"));
  EXPECT_EQ(building->result.error().code(), Code::kUnavailable);
  while (!spawner.destroys.empty()) spawner.AnswerDestroy(Fail(Code::kUnavailable, "gone"));
  EXPECT_EQ(Stored().size(), 2U);
  wire::Greeting hello;
  hello.sandboxes.push_back(Present(kept));
  sandboxes->reconciler.Reconcile(hello);
  loop.Pass(100'000);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, kept)->state, State::kRunning);
  while (!spawner.destroys.empty()) spawner.AnswerDestroy();
  EXPECT_EQ(sandboxes->registry.size(), 1U);
  EXPECT_EQ(Stored().size(), 1U);
  const auto after = Create();
  spawner.AnswerBuild();
  EXPECT_TRUE(after->result);
}

TEST_F(SandboxesTest, ABuildThatASpawnerCutsOffIsRefusedForNow) {
  const auto building = Create();
  // The next spawner connects before the requests to the old one have failed.
  wire::Greeting hello;
  wire::SandboxRecord built;
  built.id = spawner.builds[0].id;
  built.slot = spawner.builds[0].slot;
  hello.sandboxes.push_back(built);
  sandboxes->reconciler.Reconcile(hello);
  EXPECT_FALSE(building->called);
  spawner.AnswerBuild(Fail(Code::kUnavailable, "gone"));
  ASSERT_TRUE(building->called);
  EXPECT_EQ(building->result.error().code(), Code::kUnavailable);
  // The leftovers of the build are destroyed once.
  ASSERT_EQ(spawner.destroys.size(), 1U);
  EXPECT_EQ(spawner.AnswerDestroy(), built.id);
  loop.Run();
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

TEST_F(SandboxesTest, ALateAnswerOfALostSpawnerIsNotTheNextOnes) {
  const std::string id = CreateRunning();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  auto first = std::move(spawner.destroys.front());
  spawner.destroys.clear();
  wire::Greeting hello;
  sandboxes->reconciler.Reconcile(hello);
  ASSERT_EQ(spawner.destroys.size(), 1U);
  first.second(Fail(Code::kUnavailable, "gone"));
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

TEST_F(SandboxesTest, ADestroyIsTriedUntilItIsDone) {
  const std::string id = CreateRunning();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  for (const Code code : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kUnavailable}) {
    ASSERT_EQ(spawner.destroys.size(), 1U);
    spawner.AnswerDestroy(Fail(code, "not yet"));
    loop.Pass(6 * kSecond);
  }
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

TEST_F(SandboxesTest, ShutdownEndsEverything) {
  CreateRunning();
  bool done = false;
  sandboxes->reconciler.Shutdown([&](const Status& status) { done = status.has_value(); });
  EXPECT_TRUE(done);
  EXPECT_TRUE(spawner.stopped);
  EXPECT_TRUE(network.removed_all);
  EXPECT_TRUE(Stored().empty());
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  EXPECT_EQ(Create()->result.error().code(), Code::kUnavailable);
}

TEST_F(SandboxesTest, LayersAreHeldAsLongAsTheyAreUsed) {
  const std::string a = CreateRunning();
  const std::string b = CreateRunning();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, a));
  spawner.AnswerDestroy();
  EXPECT_TRUE(sandboxes->layers.InUse(1));
  Ended(b, Exit(0));
  EXPECT_TRUE(sandboxes->layers.InUse(1));  // until its mounts have been removed
  spawner.AnswerDestroy();
  EXPECT_FALSE(sandboxes->layers.InUse(1));
}

}  // namespace
}  // namespace atl::sandbox
