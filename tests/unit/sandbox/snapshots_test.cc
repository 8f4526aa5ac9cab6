#include "runtime/sandbox/snapshots/snapshots.h"

#include <cerrno>
#include <map>

#include "runtime/sandbox/snapshots/snapshot_facts.h"
#include "runtime/wire/plan.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

using Stage = Snapshot::State;

class SnapshotsTest : public SandboxesTest {
 protected:
  Snapshot Take(const std::string& id, const std::string& name = "") {
    auto taken = sandboxes->copies.TakeSnapshot(kCaller, id, name);
    EXPECT_TRUE(taken) << (taken ? "" : taken.error().message());
    return taken.value_or(Snapshot());
  }
  Snapshot TakeWhole(const std::string& id) {
    const Snapshot taken = Take(id);
    spawner.AnswerCopy();
    spawner.AnswerPublish();
    return *snapshots->Find(kCaller, taken.id);
  }
  Result<Sandbox> Restore(const std::string& snapshot) {
    Wanted wanted = Want();
    wanted.spec.image.clear();
    wanted.spec.snapshot_id = snapshot;
    wanted.metadata = {{"own", "1"}};
    const auto answer = Create(wanted);
    if (!answer->called) restored_plan = spawner.AnswerBuild().plan;
    return answer->result;
  }
  Code CodeOf(const Result<Snapshot>& result) {
    return result ? Code::kInternal : result.error().code();
  }
  wire::Boxed<wire::Plan> restored_plan;
};

TEST_F(SnapshotsTest, GoesFromCreatingToReady) {
  Wanted wanted = Want();
  wanted.spec.env = {{"LANG", "de"}};
  wanted.metadata = {{"team", "ml"}};
  const std::string id = CreateRunning(wanted);
  const Snapshot taken = Take(id, "first");
  EXPECT_EQ(taken.state, Stage::kCreating);
  EXPECT_EQ(taken.reason, "snapshot_accepted");
  const wire::CopyUpper asked = spawner.AnswerCopy(FakeSpawner::Report(5000));
  EXPECT_EQ(asked.id, id);
  EXPECT_EQ(asked.layer, 101U);
  EXPECT_EQ(snapshots->Find(kCaller, taken.id)->state, Stage::kCreating);
  EXPECT_EQ(spawner.AnswerPublish(), 101U);
  const Snapshot ready = *snapshots->Find(kCaller, taken.id);
  EXPECT_EQ(ready.state, Stage::kReady);
  EXPECT_EQ(ready.reason, "snapshot_runtime_ready");
  EXPECT_EQ(ready.size_bytes, 5000U);
  EXPECT_EQ(ready.layers, (std::vector<wire::LayerId>{101, 2, 1}));
  EXPECT_EQ(ready.config.env, (std::vector<std::string>{"PATH=/bin", "LANG=de"}));
  EXPECT_EQ(ready.config.user, "1000");
  EXPECT_EQ(ready.metadata, wanted.metadata);
  EXPECT_EQ(snapshots->stats().held_micros, 700U);
  // A restart reads the same snapshot.
  Boot({});
  const Snapshot* again = snapshots->Find(kCaller, taken.id);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->name, "first");
  EXPECT_EQ(again->sandbox_id, id);
  EXPECT_EQ(again->state, Stage::kReady);
  EXPECT_EQ(again->layers, ready.layers);
  EXPECT_EQ(again->config.env, ready.config.env);
  EXPECT_EQ(again->metadata, ready.metadata);
  EXPECT_EQ(again->size_bytes, 5000U);
  EXPECT_EQ(again->created_at_ms, ready.created_at_ms);
}

TEST_F(SnapshotsTest, ARestoreStandsOnItsLayers) {
  Wanted wanted = Want();
  wanted.metadata = {{"team", "ml"}, {"own", "0"}};
  const Snapshot snapshot = TakeWhole(CreateRunning(wanted));
  const auto restored = Restore(snapshot.id);
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored_plan->layers, snapshot.layers);
  EXPECT_EQ(restored->spec.snapshot_id, snapshot.id);
  EXPECT_EQ(restored->metadata, (std::map<std::string, std::string>{{"own", "1"}, {"team", "ml"}}));
  EXPECT_NE(restored->access_token, Stored().front().id);
  // A snapshot of the restored sandbox has the layers of both.
  const Snapshot second = TakeWhole(restored->id);
  EXPECT_EQ(second.layers, (std::vector<wire::LayerId>{102, 101, 2, 1}));
}

TEST_F(SnapshotsTest, GenerationsDoNotPileUpTheirEnvironment) {
  std::string source = CreateRunning();
  Result<Sandbox> restored = Fail(Code::kInternal, "");
  int generation = 0;
  do {
    Wanted wanted = Want();
    wanted.spec.image.clear();
    wanted.spec.snapshot_id = TakeWhole(source).id;
    wanted.spec.env = {{"OF_" + std::to_string(generation), std::string(100'000, 'x')},
                       {"SAME", std::string(100'000, 'x')}};
    const auto answer = Create(wanted);
    if (!answer->called) spawner.AnswerBuild();
    restored = answer->result;
    if (restored) source = restored->id;
  } while (restored && ++generation < 10);
  EXPECT_EQ(generation, 4);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code(), Code::kInvalidArgument);
}

TEST_F(SnapshotsTest, NoTwoOfOneSandboxAtATime) {
  const std::string id = CreateRunning();
  const Snapshot first = Take(id);
  EXPECT_EQ(CodeOf(sandboxes->copies.TakeSnapshot(kCaller, id, "")), Code::kFailedPrecondition);
  EXPECT_EQ(snapshots->All(kCaller).size(), 1U);
  EXPECT_EQ(images.last_layer, 101U);
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  Take(id);
}

TEST_F(SnapshotsTest, TwoAreCopiedAtOnce) {
  for (int i = 0; i < 3; ++i) Take(CreateRunning());
  EXPECT_EQ(spawner.copies.size(), 2U);
  spawner.AnswerCopy();
  EXPECT_EQ(spawner.copies.size(), 2U);
}

TEST_F(SnapshotsTest, OnlyWhatLivesIsTaken) {
  const std::string id = CreateRunning();
  Ended(id, Exit(0));
  EXPECT_EQ(CodeOf(sandboxes->copies.TakeSnapshot(kCaller, id, "")), Code::kFailedPrecondition);
  EXPECT_EQ(CodeOf(sandboxes->copies.TakeSnapshot(kCaller, "nobody", "")), Code::kNotFound);
  EXPECT_TRUE(spawner.copies.empty());
}

TEST_F(SnapshotsTest, BoundsOfTheOperator) {
  snapshot_config.max_count = 1;
  Boot({});
  const std::string id = CreateRunning();
  TakeWhole(id);
  const auto refused = sandboxes->copies.TakeSnapshot(kCaller, id, "");
  EXPECT_EQ(CodeOf(refused), Code::kResourceExhausted);
  EXPECT_EQ(refused.error().error_number(), ENOSPC);
  snapshot_config.max_count = 9;
  snapshot_config.max_bytes = 5000;
  Boot({.sandboxes = {Present(id)}});
  Take(id);
  EXPECT_EQ(spawner.AnswerCopy(FakeSpawner::Report(904)).max_bytes, 5000U - 4096U);
  spawner.AnswerPublish();
  EXPECT_EQ(CodeOf(sandboxes->copies.TakeSnapshot(kCaller, id, "")), Code::kResourceExhausted);
}

TEST_F(SnapshotsTest, TwoAtOnceKeepTheBoundTogether) {
  snapshot_config.max_bytes = 5000;
  Boot({});
  const std::string a = CreateRunning(), b = CreateRunning();
  const Snapshot first = Take(a), second = Take(b);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(spawner.AnswerCopy().max_bytes, 5000U);
  for (int i = 0; i < 2; ++i) spawner.AnswerPublish();
  EXPECT_EQ(snapshots->Find(kCaller, first.id)->state, Stage::kReady);
  EXPECT_EQ(snapshots->Find(kCaller, second.id)->state, Stage::kFailed);
  EXPECT_EQ(images.dropped, (std::vector<wire::LayerId>{102}));
  // The limit counts layers. A deleted snapshot's layer stays as long as another snapshot uses it.
  ASSERT_TRUE(sandboxes->copies.RemoveSnapshot(kCaller, first.id));
  Take(b);
  EXPECT_EQ(spawner.AnswerCopy().max_bytes, 904U);
}

TEST_F(SnapshotsTest, ALayerTooManyIsRefused) {
  for (wire::LayerId layer = 3; images.image.layers.size() < wire::kMaxLayers; ++layer) {
    images.image.layers.push_back(layer);
  }
  EXPECT_EQ(CodeOf(sandboxes->copies.TakeSnapshot(kCaller, CreateRunning(), "")),
            Code::kFailedPrecondition);
}

TEST_F(SnapshotsTest, WhatFailsLeavesNoLayer) {
  const Snapshot copy = Take(CreateRunning());
  spawner.AnswerCopy(Fail(Code::kInvalidArgument, "error no_room: the disk is full\n"));
  EXPECT_EQ(snapshots->Find(kCaller, copy.id)->state, Stage::kFailed);
  EXPECT_EQ(snapshots->Find(kCaller, copy.id)->reason, "snapshot_runtime_failed");
  EXPECT_EQ(snapshots->Find(kCaller, copy.id)->message, "the disk is full");
  const Snapshot report = Take(CreateRunning());
  spawner.AnswerCopy(wire::Copied{"nonsense", 0});
  EXPECT_EQ(snapshots->Find(kCaller, report.id)->state, Stage::kFailed);
  const Snapshot publish = Take(CreateRunning());
  spawner.AnswerCopy();
  spawner.AnswerPublish(Fail(Code::kInternal, "rename"));
  EXPECT_EQ(snapshots->Find(kCaller, publish.id)->state, Stage::kFailed);
  images.keep_error = Error(Code::kResourceExhausted, "full", ENOSPC);
  const Snapshot keep = Take(CreateRunning());
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  EXPECT_EQ(snapshots->Find(kCaller, keep.id)->state, Stage::kFailed);
  EXPECT_EQ(images.dropped, (std::vector<wire::LayerId>{101, 102, 103, 104}));
  EXPECT_FALSE(sandboxes->layers.InUse(101));
  const auto refused = Restore(keep.id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(sandboxes->copies.RemoveSnapshot(kCaller, keep.id));
}

TEST_F(SnapshotsTest, AStartEndsWhatWasBegun) {
  const Snapshot without = Take(CreateRunning());
  const Snapshot with = Take(CreateRunning());
  spawner.copies.clear();
  images.kept.insert(with.layers.front());
  Boot({});
  EXPECT_EQ(snapshots->Find(kCaller, without.id)->state, Stage::kFailed);
  EXPECT_EQ(snapshots->Find(kCaller, without.id)->reason, "snapshot_recovery_missing_image");
  EXPECT_EQ(snapshots->Find(kCaller, with.id)->state, Stage::kReady);
  EXPECT_EQ(snapshots->Find(kCaller, with.id)->reason, "snapshot_recovery_ready");
  EXPECT_TRUE(sandboxes->layers.InUse(with.layers.front()));
  EXPECT_FALSE(sandboxes->layers.InUse(without.layers.front()));
  // The failure is recorded, too.
  Boot({});
  EXPECT_EQ(snapshots->Find(kCaller, without.id)->state, Stage::kFailed);
}

TEST_F(SnapshotsTest, LayersStayWithWhoNeedsThem) {
  const std::string source = CreateRunning();
  const Snapshot parent = TakeWhole(source);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, source));
  spawner.AnswerDestroy();
  EXPECT_TRUE(sandboxes->layers.InUse(1));
  EXPECT_EQ(snapshots->UsersOf(kCaller, images.image), std::vector<std::string>{parent.id});
  const std::string restored = Restore(parent.id)->id;
  EXPECT_EQ(sandboxes->copies.RemoveSnapshot(kCaller, parent.id).error().code(),
            Code::kFailedPrecondition);
  ASSERT_NE(snapshots->Find(kCaller, parent.id), nullptr);
  const Snapshot child = TakeWhole(restored);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, restored));
  spawner.AnswerDestroy();
  const int collected = images.collected;
  ASSERT_TRUE(sandboxes->copies.RemoveSnapshot(kCaller, parent.id));
  EXPECT_EQ(snapshots->Find(kCaller, parent.id), nullptr);
  EXPECT_EQ(images.collected, collected + 1);
  EXPECT_TRUE(sandboxes->layers.InUse(parent.layers.front()));
  ASSERT_TRUE(sandboxes->copies.RemoveSnapshot(kCaller, child.id));
  EXPECT_FALSE(sandboxes->layers.InUse(parent.layers.front()));
  EXPECT_FALSE(sandboxes->layers.InUse(1));
}

TEST_F(SnapshotsTest, NoneIsRemovedWhileItIsTaken) {
  const Snapshot taken = Take(CreateRunning());
  EXPECT_EQ(sandboxes->copies.RemoveSnapshot(kCaller, taken.id).error().code(),
            Code::kFailedPrecondition);
  EXPECT_NE(snapshots->Find(kCaller, taken.id), nullptr);
  EXPECT_EQ(sandboxes->copies.RemoveSnapshot(kCaller, "none").error().code(), Code::kNotFound);
}

TEST_F(SnapshotsTest, OneFromElsewhereIsNewHere) {
  Wanted wanted = Want();
  wanted.metadata = {{"team", "ml"}};
  const Snapshot taken = Take(CreateRunning(wanted), "first");
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  images::Image image = ImageOf(*snapshots->Find(kCaller, taken.id));
  EXPECT_EQ(image.name, "snapshot:" + taken.id);
  EXPECT_EQ(image.layers, (std::vector<wire::LayerId>{101, 2, 1}));
  // The image as another store has it.
  image.name.clear();
  image.digest = "sha256:77";
  image.layers = {203, 202, 201};
  images.kept.insert({203, 202, 201});

  std::optional<Result<Snapshot>> imported;
  const auto import = [&](const std::string& name) {
    sandboxes->copies.ImportSnapshot(
        kCaller, UniqueFd(), name,
        [](const Snapshot& said) -> Status {
          if (said.metadata.contains("team")) return {};
          return Fail(Code::kInvalidArgument, "no team");
        },
        [&](const Result<Snapshot>& snapshot) { imported = snapshot; });
  };
  import("");
  ASSERT_EQ(images.imports.size(), 1U);
  EXPECT_TRUE(images.imports[0].accept(image));
  images.imports[0].done(image);
  ASSERT_TRUE(imported && *imported) << imported->error().message();
  const Snapshot copy = *snapshots->Find(kCaller, (*imported)->id);
  EXPECT_NE(copy.id, taken.id);
  EXPECT_EQ(copy.name, "first");
  EXPECT_EQ(copy.state, Stage::kReady);
  EXPECT_EQ(copy.image, taken.image);
  EXPECT_EQ(copy.image_digest, "sha256:77") << "an archive says of itself which image it is";
  EXPECT_EQ(copy.sandbox_id, taken.sandbox_id);
  EXPECT_EQ(copy.metadata, wanted.metadata);
  EXPECT_EQ(copy.config.env, taken.config.env);
  EXPECT_EQ(copy.size_bytes, 2030U);
  EXPECT_TRUE(sandboxes->layers.InUse(201));
  const auto restored = Restore(copy.id);
  ASSERT_TRUE(restored) << restored.error().message();
  EXPECT_EQ(restored_plan->layers, copy.layers);

  import("other");
  images.imports[1].done(image);
  EXPECT_EQ((*imported)->name, "other");
  // An image that is not a snapshot is refused before it is unpacked.
  image.facts.clear();
  EXPECT_NE(images.imports[1].accept(image).error().message().find("atoll image import"),
            std::string::npos);
  const int collected = images.collected;
  import("");
  images.imports[2].done(Fail(Code::kInvalidArgument, "nothing of it"));
  EXPECT_FALSE(*imported);
  EXPECT_EQ(images.collected, collected + 1) << "what was left of it";
}

TEST_F(SnapshotsTest, AnArchiveOfAStrangerIsHeldToItsForm) {
  const Snapshot taken = TakeWhole(CreateRunning());
  images::Image image = ImageOf(taken);
  const std::string good = image.facts;
  ASSERT_TRUE(SnapshotOf(image)) << SnapshotOf(image).error().message();
  const auto with = [&](const std::string& what, const std::string& instead) {
    image.facts = good;
    image.facts.replace(image.facts.find(what), what.size(), instead);
    return SnapshotOf(image);
  };
  EXPECT_TRUE(with(R"("name":"")", R"("name":"n")"));
  for (const auto& [what, instead] : std::map<std::string, std::string>{
           {"{", "["},
           {R"("name":"")", R"("name":7)"},
           {R"("name":)", R"("nome":)"},
           {R"("name":"")", R"("name":")" + std::string(254, 'x') + "\""},
           {R"("image":"busybox:latest")", R"("image":"Busy Box")"},
           {R"("image":"busybox:latest")", R"("image":"busybox")"},
           {taken.sandbox_id, "../../etc"},
           {R"("metadata":{})", R"("metadata":{"a":{"b":"c"}})"},
           {R"("metadata":{})", R"("metadata":{"a":"b","a":"c"})"}}) {
    const auto refused = with(what, instead);
    ASSERT_FALSE(refused) << instead;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  }
}

TEST_F(SnapshotsTest, ThoseFromElsewhereAreCounted) {
  snapshot_config.max_count = 2;
  Boot({});
  const images::Image image = ImageOf(TakeWhole(CreateRunning()));
  std::vector<bool> admitted;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(snapshots->CheckCount(""));
    sandboxes->copies.ImportSnapshot(
        kCaller, UniqueFd(), "", [](const Snapshot&) { return Status(); },
        [&](const Result<Snapshot>& snapshot) { admitted.push_back(snapshot.has_value()); });
  }
  for (const auto& import : images.imports) import.done(image);
  EXPECT_EQ(admitted, (std::vector<bool>{true, false})) << "both had begun before";
  EXPECT_EQ(snapshots->CheckCount("").error().error_number(), ENOSPC);
}

TEST_F(SnapshotsTest, ALostLayerIsSaid) {
  const Snapshot snapshot = TakeWhole(CreateRunning());
  images.kept.erase(2);
  EXPECT_EQ(Restore(snapshot.id).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Restore("none").error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace atl::sandbox
