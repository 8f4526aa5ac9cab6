#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/sandbox/store/store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

using wire::Volume;

VolumeMount Named(const std::string& name, bool owned = false, bool create = true) {
  VolumeMount mount;
  mount.volume.source = name;
  mount.volume.target = "/" + name;
  mount.delete_with_sandbox = owned;
  mount.create_if_missing = create;
  return mount;
}

VolumeMount Host(const std::string& path) {
  VolumeMount mount;
  mount.volume.kind = Volume::Kind::kHost;
  mount.volume.source = path;
  mount.volume.target = "/host";
  return mount;
}

const tenants::Caller kHost;

class VolumesTest : public testing::Test {
 protected:
  VolumesTest() {
    char name[] = "/tmp/volumes_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    Boot({});
  }
  ~VolumesTest() override {
    volumes.reset();
    store.reset();
    records.reset();
    std::filesystem::remove_all(directory);
  }

  // Starts a daemon with these sandboxes on record. The spawner may or may not have carried out the
  // requests from before.
  void Boot(const std::map<std::string, std::vector<VolumeMount>>& sandboxes) {
    volumes.reset();
    spawner.volume_calls.clear();
    // Opens first the store that owns the file and keeps room in it.
    records = std::move(*Store::Open(directory + "/v.db"));
    store = std::move(*VolumeStore::Open(directory + "/v.db"));
    volumes = std::move(*Volumes::Open(loop, clock, spawner, *store, config));
    for (const auto& [id, mounts] : sandboxes) {
      std::vector<Volume> plain;
      for (const VolumeMount& mount : mounts) plain.push_back(mount.volume);
      volumes->Adopt(id, plain);
    }
    volumes->Start();
  }

  struct Answer {
    bool called = false;
    Status status = Fail(Code::kInternal, "not answered");
    Volume::Kind kind = Volume::Kind::kNamed;
  };
  std::shared_ptr<Answer> Acquire(const std::string& id, std::vector<VolumeMount> mounts,
                                  const std::string& tenant = "") {
    auto answer = std::make_shared<Answer>();
    volumes->Acquire({.tenant = tenant}, id, std::move(mounts),
                     [answer](Status status, Volume::Kind kind) {
                       EXPECT_FALSE(answer->called);
                       *answer = {true, std::move(status), kind};
                     });
    return answer;
  }
  void Have(const std::string& id, std::vector<VolumeMount> mounts) {
    const auto answer = Acquire(id, std::move(mounts));
    while (!spawner.volume_calls.empty()) spawner.AnswerVolume();
    ASSERT_TRUE(answer->called && answer->status);
    volumes->Keep(id);
  }
  std::string Listed() {
    std::string names;
    for (const auto& view : volumes->List(kHost)) names += view.name + " ";
    return names;
  }

  std::string directory;
  Volumes::Config config;
  FakeClock clock;
  FakeLoop loop{clock};
  FakeSpawner spawner{loop};
  std::unique_ptr<Store> records;
  std::unique_ptr<VolumeStore> store;
  std::unique_ptr<Volumes> volumes;
};

TEST_F(VolumesTest, MadeBeforeItIsTold) {
  bool told = false;
  volumes->Create(kHost, "data", 0, [&](Result<Volumes::View> view) {
    told = true;
    ASSERT_TRUE(view) << view.error().message();
    EXPECT_EQ(view->name, "data");
    EXPECT_EQ(view->created_at_ms, clock.unix_ms);
  });
  EXPECT_FALSE(told);
  EXPECT_EQ(Listed(), "");
  EXPECT_EQ(spawner.AnswerVolume(), "make data");
  EXPECT_TRUE(told);
  Boot({});
  EXPECT_EQ(Listed(), "data ");
  EXPECT_TRUE(spawner.volume_calls.empty());
  volumes->Create(kHost, "data", 0, [](const Result<Volumes::View>& view) {
    ASSERT_FALSE(view);
    EXPECT_EQ(CodeName(view.error().code()), CodeName(Code::kAlreadyExists));
  });
}

TEST_F(VolumesTest, NeverToldIsRemovedAtTheNextStart) {
  volumes->Create(kHost, "data", 0, [](const Result<Volumes::View>&) { FAIL(); });
  Boot({});
  EXPECT_EQ(Listed(), "");
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  Boot({});
  EXPECT_TRUE(spawner.volume_calls.empty());
}

TEST_F(VolumesTest, RemovalIsFinishedAfterARestart) {
  Have("a", {Named("data")});
  volumes->Release("a");
  EXPECT_TRUE(volumes->Remove(kHost, "data"));
  EXPECT_EQ(Listed(), "");
  EXPECT_FALSE(volumes->Find(kHost, "data"));
  EXPECT_EQ(CodeName(volumes->Remove(kHost, "data").error().code()), CodeName(Code::kNotFound));
  Boot({});
  EXPECT_EQ(Listed(), "");
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  EXPECT_TRUE(store->Load()->empty());
}

TEST_F(VolumesTest, RemovalIsTriedAgain) {
  Have("a", {Named("data")});
  volumes->Release("a");
  ASSERT_TRUE(volumes->Remove(kHost, "data"));
  EXPECT_EQ(spawner.volume_calls.size(), 1U);
  spawner.AnswerVolume(Fail(Code::kUnavailable, "gone"));
  EXPECT_TRUE(spawner.volume_calls.empty());
  EXPECT_EQ(store->Load()->size(), 1U);
  loop.Pass(10'000'000);
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  EXPECT_TRUE(store->Load()->empty());
}

TEST_F(VolumesTest, TheNextSpawnerIsAskedAtOnce) {
  Have("a", {Named("data")});
  volumes->Release("a");
  ASSERT_TRUE(volumes->Remove(kHost, "data"));
  spawner.AnswerVolume(Fail(Code::kUnavailable, "gone"));
  volumes->RemoveAgain();
  const auto waits = Acquire("b", {Named("data")});
  EXPECT_FALSE(waits->called);
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  EXPECT_EQ(spawner.AnswerVolume(), "make data");
  EXPECT_TRUE(waits->called && waits->status);
  // The removal happens once. RemoveAgain leaves alone what is not in progress.
  volumes->RemoveAgain();
  loop.Pass(10'000'000);
  EXPECT_TRUE(spawner.volume_calls.empty());
}

TEST_F(VolumesTest, InUseCannotBeRemoved) {
  Have("a", {Named("data")});
  Have("b", {Named("data")});
  EXPECT_EQ(volumes->Find(kHost, "data")->used_by, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(CodeName(volumes->Remove(kHost, "data").error().code()),
            CodeName(Code::kFailedPrecondition));
  volumes->Release("a");
  EXPECT_FALSE(volumes->Remove(kHost, "data"));
  // Nor after a restart.
  Boot({{"b", {Named("data")}}});
  EXPECT_EQ(volumes->Find(kHost, "data")->used_by, std::vector<std::string>{"b"});
  EXPECT_FALSE(volumes->Remove(kHost, "data"));
  volumes->Release("b");
  EXPECT_TRUE(volumes->Remove(kHost, "data"));
}

TEST_F(VolumesTest, IsRemovedBehindThoseThatLeave) {
  Have("a", {Named("data")});
  Have("b", {Named("data")});
  volumes->Leave("a");
  EXPECT_EQ(volumes->Find(kHost, "data")->used_by, std::vector<std::string>{"b"});
  EXPECT_FALSE(volumes->Remove(kHost, "data"));
  volumes->Leave("b");
  EXPECT_TRUE(volumes->Remove(kHost, "data"));
  EXPECT_EQ(Listed(), "");
  volumes->Release("b");
  EXPECT_TRUE(spawner.volume_calls.empty());
  // Nor does a restart remove the volume of a sandbox that is still ending.
  Boot({{"a", {Named("data")}}});
  EXPECT_TRUE(spawner.volume_calls.empty());
  volumes->Release("a");
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  EXPECT_TRUE(store->Load()->empty());
}

TEST_F(VolumesTest, OwnedGoesWithItsSandbox) {
  Have("a", {Named("mine", true), Named("kept")});
  EXPECT_TRUE(volumes->Find(kHost, "mine")->deleted_with_sandbox);
  EXPECT_FALSE(volumes->Find(kHost, "kept")->deleted_with_sandbox);
  volumes->Release("a");
  EXPECT_EQ(Listed(), "kept ");
  EXPECT_EQ(spawner.AnswerVolume(), "remove mine");
  volumes->Release("a");
  EXPECT_TRUE(spawner.volume_calls.empty());
}

// The daemon died after the owner's record was removed, or before it was written.
TEST_F(VolumesTest, OwnedByNobodyOnRecordGoesAtStart) {
  Have("a", {Named("mine", true)});
  Boot({});
  EXPECT_EQ(Listed(), "");
  EXPECT_EQ(spawner.AnswerVolume(), "remove mine");
}

TEST_F(VolumesTest, OwnedStaysWithItsSandboxOverARestart) {
  Have("a", {Named("mine", true)});
  Boot({{"a", {Named("mine", true)}}});
  EXPECT_EQ(Listed(), "mine ");
  volumes->Release("a");
  EXPECT_EQ(spawner.AnswerVolume(), "remove mine");
}

TEST_F(VolumesTest, OwnedStaysIfAnotherUsesIt) {
  Have("a", {Named("mine", true)});
  Have("b", {Named("mine")});
  volumes->Release("a");
  EXPECT_FALSE(volumes->Find(kHost, "mine")->deleted_with_sandbox);
  volumes->Release("b");
  EXPECT_EQ(Listed(), "mine ");
  Boot({});
  EXPECT_EQ(Listed(), "mine ");
  // The same if the owner ended while no daemon ran.
  Have("c", {Named("other", true)});
  Have("d", {Named("other")});
  Boot({{"d", {Named("other")}}});
  EXPECT_EQ(Listed(), "mine other ");
  volumes->Release("d");
  EXPECT_EQ(Listed(), "mine other ");
}

TEST_F(VolumesTest, WhatWasThereBeforeHasNoOwner) {
  Have("a", {Named("data")});
  Have("b", {Named("data", true)});
  volumes->Release("a");
  volumes->Release("b");
  EXPECT_EQ(Listed(), "data ");
}

TEST_F(VolumesTest, NotToBeCreated) {
  const auto answer = Acquire("a", {Named("data", true), Named("absent", false, false)});
  ASSERT_TRUE(answer->called);
  EXPECT_EQ(CodeName(answer->status.error().code()), CodeName(Code::kNotFound));
  EXPECT_TRUE(spawner.volume_calls.empty()) << "the first was made before the second was looked at";
  EXPECT_EQ(Listed(), "");
}

TEST_F(VolumesTest, RefusedByTheSpawner) {
  const auto answer = Acquire("a", {Named("data"), Host("/etc")});
  EXPECT_EQ(spawner.AnswerVolume(Fail(Code::kPermissionDenied, "no")), "check /etc");
  ASSERT_TRUE(answer->called);
  EXPECT_EQ(CodeName(answer->status.error().code()), CodeName(Code::kPermissionDenied));
  EXPECT_EQ(answer->kind, Volume::Kind::kHost);
  EXPECT_TRUE(spawner.volume_calls.empty());
  EXPECT_EQ(Listed(), "");
}

TEST_F(VolumesTest, ACreateThatFailsLeavesNone) {
  const auto made = Acquire("a", {Named("data")});
  EXPECT_EQ(spawner.AnswerVolume(), "make data");
  EXPECT_TRUE(made->called && made->status);
  volumes->Release("a");
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  EXPECT_TRUE(store->Load()->empty());
  // The volume stays if another sandbox, which does not own it, uses it by then.
  const auto first = Acquire("b", {Named("data")});
  spawner.AnswerVolume();
  const auto second = Acquire("c", {Named("data")});
  EXPECT_TRUE(second->called && second->status);
  volumes->Release("b");
  EXPECT_TRUE(spawner.volume_calls.empty());
  volumes->Keep("c");
  volumes->Release("c");
  EXPECT_EQ(Listed(), "data ");
}

TEST_F(VolumesTest, ACreateThatNobodyWasToldOfLeavesNone) {
  const auto made = Acquire("a", {Named("lost")});
  spawner.AnswerVolume();
  EXPECT_TRUE(made->called && made->status);
  Boot({});
  EXPECT_EQ(spawner.AnswerVolume(), "remove lost");
  EXPECT_EQ(Listed(), "");
  // The sandbox is recorded, although its client had no answer. Its volume exists beyond the
  // sandbox's end.
  const auto again = Acquire("b", {Named("found")});
  spawner.AnswerVolume();
  Boot({{"b", {Named("found")}}});
  EXPECT_EQ(Listed(), "found ");
  volumes->Release("b");
  EXPECT_EQ(Listed(), "found ");
}

TEST_F(VolumesTest, SizesWhereTheStoreHasQuotas) {
  VolumeMount sized = Named("data");
  sized.disk_bytes = 5 << 20;
  const auto refused = Acquire("a", {sized});
  ASSERT_TRUE(refused->called);
  EXPECT_EQ(CodeName(refused->status.error().code()), CodeName(Code::kUnimplemented));
  EXPECT_TRUE(spawner.volume_calls.empty());
  config = {.has_quota = true, .default_disk_bytes = 1 << 20};
  Boot({});
  const auto own = Acquire("a", {sized});
  EXPECT_EQ(spawner.AnswerVolume(), "make data of 5242880");
  const auto usual = Acquire("b", {Named("usual")});
  EXPECT_EQ(spawner.AnswerVolume(), "make usual of 1048576");
}

TEST_F(VolumesTest, TwoAtOnceMakeItOnce) {
  const auto first = Acquire("a", {Named("data")});
  const auto second = Acquire("b", {Named("data")});
  EXPECT_EQ(spawner.volume_calls.size(), 1U);
  spawner.AnswerVolume();
  EXPECT_TRUE(first->status && second->status);
  EXPECT_EQ(volumes->Find(kHost, "data")->used_by, (std::vector<std::string>{"a", "b"}));
}

TEST_F(VolumesTest, ANameIsTakenAgainWhenTheOldOneIsGone) {
  Have("a", {Named("data", true)});
  volumes->Release("a");
  const auto again = Acquire("b", {Named("data")});
  EXPECT_FALSE(again->called);
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  EXPECT_FALSE(again->called);
  EXPECT_EQ(spawner.AnswerVolume(), "make data");
  EXPECT_TRUE(again->called && again->status);
}

// The spawner never answers, or a sandbox that has released the volume never ends.
TEST_F(VolumesTest, ARemovalIsNotWaitedForWithoutEnd) {
  Have("a", {Named("data")});
  volumes->Leave("a");
  ASSERT_TRUE(volumes->Remove(kHost, "data"));
  const auto create = Acquire("b", {Named("data")});
  std::optional<Status> made;
  volumes->Create(kHost, "data", 0, [&](const Result<Volumes::View>& view) {
    made = view ? Status() : Status(Fail(view.error()));
  });
  loop.Pass(9'000'000);
  EXPECT_FALSE(create->called || made);
  loop.Pass(2'000'000);
  ASSERT_TRUE(create->called && made);
  EXPECT_EQ(create->status.error().code(), Code::kUnavailable);
  EXPECT_EQ(made->error().code(), Code::kUnavailable);
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    volumes->Acquire(kHost, "c" + std::to_string(i), {Named("data")},
                     [&](const Status& status, Volume::Kind) { refused += !status; });
  }
  EXPECT_EQ(refused, 100 - 64);
  // Once removed, the volume can be created again.
  volumes->Release("a");
  spawner.AnswerVolume();
  loop.Run();
  EXPECT_EQ(refused, 100 - 64);
}

// Without a spawner the answer is 503 at once, as for all other requests.
TEST_F(VolumesTest, ARemovalThatFailsIsNotWaitedFor) {
  Have("a", {Named("data")});
  volumes->Release("a");
  ASSERT_TRUE(volumes->Remove(kHost, "data"));
  const auto waits = Acquire("b", {Named("data")});
  EXPECT_FALSE(waits->called);
  spawner.AnswerVolume(Fail(Code::kUnavailable, "no spawner"));
  ASSERT_TRUE(waits->called);
  EXPECT_EQ(waits->status.error().code(), Code::kUnavailable);
  const auto next = Acquire("c", {Named("data")});
  ASSERT_TRUE(next->called);
  EXPECT_EQ(next->status.error().message(), "no spawner");
  // The removal is tried again.
  loop.Pass(6'000'000);
  spawner.AnswerVolume();
  Have("d", {Named("data")});
}

TEST_F(VolumesTest, WhatCannotBeMadeIsNotThere) {
  const auto answer = Acquire("a", {Named("data")});
  spawner.AnswerVolume(Fail(Code::kResourceExhausted, "disk full"));
  EXPECT_EQ(CodeName(answer->status.error().code()), CodeName(Code::kResourceExhausted));
  EXPECT_EQ(spawner.AnswerVolume(), "remove data");
  EXPECT_TRUE(store->Load()->empty());
  // Files of somebody else, without a record, are left alone.
  const auto stray = Acquire("a", {Named("data")});
  spawner.AnswerVolume(Fail(Code::kAlreadyExists, "there"));
  EXPECT_EQ(CodeName(stray->status.error().code()), CodeName(Code::kInternal));
  EXPECT_TRUE(spawner.volume_calls.empty());
  EXPECT_TRUE(store->Load()->empty());
}

TEST_F(VolumesTest, AnswersAfterTheEndAreNotHeard) {
  volumes->Create(kHost, "data", 0, [](const Result<Volumes::View>&) { FAIL(); });
  auto call = std::move(spawner.volume_calls.front());
  spawner.volume_calls.pop_front();
  volumes.reset();
  call.done({});
}

TEST_F(VolumesTest, ATenantHasNamesOfItsOwn) {
  const tenants::Caller red{.tenant = "red"}, blue{.tenant = "blue"};
  const auto make = [&](const tenants::Caller& caller) {
    bool made = false;
    volumes->Create(caller, "data", 0, [&](const Result<Volumes::View>& view) {
      made = view && view->name == "data" && view->tenant == caller.tenant;
    });
    const std::string asked = spawner.AnswerVolume();
    EXPECT_TRUE(made);
    return asked;
  };
  EXPECT_EQ(make(red), "make red.data");
  EXPECT_FALSE(volumes->Find(blue, "data"));
  // The directory is the name of nothing.
  EXPECT_FALSE(volumes->Find(kHost, "red.data"));
  EXPECT_EQ(CodeName(volumes->Remove(kHost, "red.data").error().code()), CodeName(Code::kNotFound));
  volumes->Create(kHost, "red.data", 0, [](const Result<Volumes::View>& view) {
    EXPECT_EQ(CodeName(view.error().code()), CodeName(Code::kInvalidArgument));
  });
  EXPECT_EQ(make(blue), "make blue.data");
  EXPECT_EQ(make(kHost), "make data");
  EXPECT_EQ(volumes->List(red).size(), 1U);
  EXPECT_EQ(volumes->List(tenants::Caller::Daemon()).size(), 3U);
  // A mount that has lost its tenant mounts nothing.
  const auto lost = Acquire("a", {Named("red.data")}, "blue");
  ASSERT_TRUE(lost->called);
  EXPECT_EQ(CodeName(lost->status.error().code()), CodeName(Code::kInternal));
  EXPECT_FALSE(Acquire("a", {Named("data")}, "blue")->status);
  const auto own = Acquire("b", {Named("blue.data")}, "blue");
  EXPECT_TRUE(own->called && own->status);
  EXPECT_EQ(volumes->Find(blue, "data")->used_by, std::vector<std::string>{"b"});
  EXPECT_TRUE(volumes->Find(red, "data")->used_by.empty());
  EXPECT_TRUE(volumes->Find(kHost, "data")->used_by.empty());
  EXPECT_TRUE(volumes->Remove(red, "data"));
  EXPECT_EQ(spawner.AnswerVolume(), "remove red.data");
  EXPECT_TRUE(volumes->Find(blue, "data"));
}

TEST_F(VolumesTest, TheSizeThatCountsIsTheOneItHas) {
  config = {.has_quota = true, .default_disk_bytes = 7};
  Boot({});
  const tenants::Caller red{.tenant = "red"};
  uint64_t asked = 0;
  bool may = true;
  volumes->SetQuota([&](const tenants::Caller& owner, uint64_t disk_bytes) {
    EXPECT_EQ(owner.tenant, "red");
    asked = disk_bytes;
    return may ? Status() : Status(Fail(Code::kResourceExhausted, "quota"));
  });
  const auto nothing = [](const Result<Volumes::View>&) {};
  volumes->Create(red, "plain", 0, nothing);
  EXPECT_EQ(asked, 7U);
  volumes->Create(red, "large", 100, nothing);
  EXPECT_EQ(asked, 100U);
  may = false;
  volumes->Create(red, "refused", 1000, nothing);
  EXPECT_EQ(asked, 1000U);
  const auto counted = [&] {
    Owned owned;
    volumes->CountOwned("red", &owned);
    volumes->CountOwned("", &owned);
    return owned;
  };
  EXPECT_EQ(counted(), (Owned{.disk_bytes = 107, .volumes = 2}));
  EXPECT_EQ(spawner.AnswerVolume(), "make red.plain of 7");
  EXPECT_EQ(spawner.AnswerVolume(), "make red.large of 100");
  EXPECT_TRUE(spawner.volume_calls.empty());
  Boot({});
  EXPECT_EQ(counted(), (Owned{.disk_bytes = 107, .volumes = 2}));
}

}  // namespace
}  // namespace atl::sandbox
