#include "runtime/sandbox/store/store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/base/sqlite.h"
#include "runtime/sandbox/store/snapshot_store.h"
#include "runtime/sandbox/store/template_store.h"
#include "tests/unit/sandbox/fakes.h"
#include "tests/unit/sandbox/sample.h"

namespace atl::sandbox {
namespace {

void ExpectSame(const Sandbox& a, const Sandbox& b) {
  EXPECT_EQ(TextsOf(a), TextsOf(b));
}

TEST(Store, KeepsEveryField) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  Sandbox bare;
  bare.id = bare.spec.network.sandbox = "00000000-0000-4000-8000-000000000000";
  bare.state = State::kAwaiting;
  const std::vector<std::string> sample = TextsOf(Sample()), empty = TextsOf(Sandbox());
  for (size_t i = 0; i < sample.size(); ++i) EXPECT_NE(sample[i], empty[i]) << "field " << i;
  ASSERT_TRUE((*store)->Insert(Sample()));
  ASSERT_TRUE((*store)->Insert(bare));
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->size(), 2U);
  const bool first = (*loaded)[0].id == bare.id;
  ExpectSame((*loaded)[first ? 0 : 1], bare);
  ExpectSame((*loaded)[first ? 1 : 0], Sample());
}

TEST(Store, UpdatesWhatMoves) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  Sandbox s = Sample();
  ASSERT_TRUE((*store)->Insert(s));
  s.state = State::kFailed;
  s.reason = "r";
  s.message = "m";
  s.transition_at_ms = 5;
  s.slot = 0;
  s.expires_at_ms.reset();
  ASSERT_TRUE((*store)->Update(s));
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->size(), 1U);
  ExpectSame((*loaded)[0], s);
}

TEST(Store, ATenantAdoptsWhatHasNoOwner) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  Sandbox blue = Sample(), orphan = Sample(), member = Sample();
  blue.tenant = "blue";
  orphan.id = "00000000-0000-4000-8000-000000000000";
  orphan.tenant = member.tenant = "";
  orphan.stocked = false;
  // A template's stock stays the host's.
  member.id = "00000000-0000-4000-8000-000000000001";
  member.stocked = true;
  for (const Sandbox& s : {blue, orphan, member}) ASSERT_TRUE((*store)->Insert(s));
  EXPECT_EQ(*(*store)->Adopt("red"), 1U);
  const auto loaded = (*store)->Load();
  ASSERT_EQ(loaded->size(), 3U);
  for (const Sandbox& s : *loaded) {
    EXPECT_EQ(s.tenant, s.id == orphan.id ? "red" : s.id == member.id ? "" : "blue");
  }
}

TEST(Store, RefusesTwiceAndUnknown) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  EXPECT_FALSE((*store)->Insert(Sample()));
  Sandbox other = Sample();
  other.id = "other";
  const auto updated = (*store)->Update(other);
  ASSERT_FALSE(updated);
  EXPECT_EQ(updated.error().code(), Code::kNotFound);
  // A failed statement does not affect the next one.
  EXPECT_TRUE((*store)->Insert(other));
}

TEST(Store, Removes) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  EXPECT_TRUE((*store)->Remove("unknown"));
  EXPECT_EQ((*store)->Load()->size(), 1U);
  EXPECT_TRUE((*store)->Remove(Sample().id));
  EXPECT_EQ((*store)->Load()->size(), 0U);
}

TEST(Store, SurvivesReopening) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  {
    auto store = Store::Open(path);
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE((*store)->Insert(Sample()));
  }
  {
    auto store = Store::Open(path);
    ASSERT_TRUE(store);
    const auto loaded = (*store)->Load();
    ASSERT_TRUE(loaded);
    ASSERT_EQ(loaded->size(), 1U);
    ExpectSame((*loaded)[0], Sample());
  }
  std::filesystem::remove_all(name);
}

TEST(Store, TheLogIsMovedByThePoolAndStaysSmall) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  FakeClock clock;
  FakeLoop loop(clock);
  auto store = Store::Open(path, &loop);
  ASSERT_TRUE(store);
  Sandbox s = Sample();
  ASSERT_TRUE((*store)->Insert(s));
  for (int i = 0; i < 10000; ++i) {
    s.slot = static_cast<uint32_t>(i);
    ASSERT_TRUE((*store)->Update(s));
    loop.Run();
  }
  // 10,000 pages have been written. Without checkpoints, the log would hold all of them. The log
  // also keeps reserved room.
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), 12U << 20);
  EXPECT_EQ((*Store::Open(path))->Load()->at(0).slot, 9999U);
  std::filesystem::remove_all(name);
}

// A record that was written by a release with fewer limits.
TEST(Store, ReadsARecordOfBeforeThereWereSomeLimits) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  ASSERT_TRUE((*store)->db().Exec(
      "UPDATE sandboxes SET record = json_remove(record, '$.limits.shm', '$.limits.disk')"));
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded) << loaded.error().message();
  Sandbox plain = Sample();
  plain.spec.limits.shm_bytes = 64 << 20;
  plain.spec.limits.disk_bytes = 0;
  ExpectSame(loaded->at(0), plain);
}

TEST(Store, ADamagedRecordIsAnErrorWithItsId) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  auto store = Store::Open(path);
  auto snapshots = SnapshotStore::Open(path);
  auto templates = TemplateStore::Open(path);
  ASSERT_TRUE(store && snapshots && templates);
  ASSERT_TRUE((*store)->Insert(Sample()));
  Snapshot snapshot;
  snapshot.id = "snapshot-1";
  ASSERT_TRUE((*snapshots)->Write(snapshot));
  TemplateRecord record;
  record.id = "template-1";
  ASSERT_TRUE((*templates)->Write(record));
  auto db = sqlite::Db::Open(path);
  ASSERT_TRUE(db);
  const auto error = [](const auto& loaded) {
    return loaded ? std::string() : loaded.error().message();
  };
  for (const std::string damaged : {R"({"image": 3})", "{"}) {
    ASSERT_TRUE(db->Exec("UPDATE sandboxes SET record = '" + damaged + "'"));
    EXPECT_NE(error((*store)->Load()).find(Sample().id), std::string::npos) << damaged;
    ASSERT_TRUE(db->Exec("UPDATE snapshots SET record = '" + damaged + "'"));
    EXPECT_NE(error((*snapshots)->Load()).find("snapshot-1"), std::string::npos) << damaged;
    ASSERT_TRUE(db->Exec("UPDATE templates SET record = '" + damaged + "'"));
    EXPECT_NE(error((*templates)->Load()).find("template-1"), std::string::npos) << damaged;
  }
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace atl::sandbox
