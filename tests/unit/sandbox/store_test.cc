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
  // A failed statement does not spoil the next one.
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

TEST(Store, SurvivesReopeningAndRefusesANewerSchema) {
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
  {
    auto db = sqlite::Db::Open(path);
    ASSERT_TRUE(db);
    ASSERT_TRUE(db->SetUserVersion(1000));
  }
  const auto store = Store::Open(path);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kFailedPrecondition);
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
  // 10,000 pages have been written; without checkpoints the log would hold all of them.
  // Room is kept through the log, too.
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), 12U << 20);
  EXPECT_EQ((*Store::Open(path))->Load()->at(0).slot, 9999U);
  std::filesystem::remove_all(name);
}

// As the first release wrote it.
TEST(Store, ReadsARecordOfBeforeThereWereSomeFields) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  auto store = Store::Open(path);
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  auto db = sqlite::Db::Open(path);
  ASSERT_TRUE(db);
  ASSERT_TRUE(db->Exec(
      R"(UPDATE sandboxes SET spec = '{"image":"python:3.11","digest":"sha256:ab","layers":[9,4],)"
      R"("entrypoint":["sh"],"env":{"A":"1"},"metadata":{"team":"ml"},"token":"t","limits":)"
      R"({"memory":1,"swap":2,"pids":3,"cpu":4,"rbps":5,"wbps":6,"riops":7,"wiops":8},)"
      R"("volumes":[{"host":true,"source":"/srv","sub":"","target":"/v","ro":true}],)"
      R"("network":{"name":"n","hostname":""},"platform":{"os":"linux","arch":"arm64"}}')"));
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded) << loaded.error().message();
  Sandbox plain = Sample();
  plain.host_id.clear();
  plain.stocked = false;
  plain.tenant.clear();
  plain.reclaimed_bytes = 0;
  plain.fork_layer = 0;
  plain.spec = {};
  plain.config = {};
  plain.secure_token.clear();
  plain.authority = {};
  plain.spec.image = "python:3.11";
  plain.image_digest = "sha256:ab";
  plain.layers = {9, 4};
  plain.spec.entrypoint = {"sh"};
  plain.spec.env = {{"A", "1"}};
  plain.metadata = {{"team", "ml"}};
  plain.access_token = "t";
  plain.spec.limits = {.memory_bytes = 1,
                       .swap_bytes = 2,
                       .pids = 3,
                       .cpu_millis = 4,
                       .io_read_bps = 5,
                       .io_write_bps = 6,
                       .io_read_iops = 7,
                       .io_write_iops = 8,
                       .shm_bytes = 64 << 20};
  plain.spec.volumes = {{wire::Volume::Kind::kHost, "/srv", "", "/v", true}};
  plain.spec.network.network = "n";
  plain.spec.platform = Platform{"linux", "arm64"};
  plain.spec.network.sandbox = plain.id;
  ExpectSame(loaded->at(0), plain);
  std::filesystem::remove_all(name);
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
  ASSERT_TRUE((*snapshots)->Insert(snapshot));
  TemplateRecord record;
  record.id = "template-1";
  ASSERT_TRUE((*templates)->Write(record));
  auto db = sqlite::Db::Open(path);
  ASSERT_TRUE(db);
  const auto error = [](const auto& loaded) {
    return loaded ? std::string() : loaded.error().message();
  };
  for (const std::string damaged : {R"({"image": 3})", "{"}) {
    ASSERT_TRUE(db->Exec("UPDATE sandboxes SET spec = '" + damaged + "'"));
    EXPECT_NE(error((*store)->Load()).find(Sample().id), std::string::npos) << damaged;
    ASSERT_TRUE(db->Exec("UPDATE snapshots SET restore = '" + damaged + "'"));
    EXPECT_NE(error((*snapshots)->Load()).find("snapshot-1"), std::string::npos) << damaged;
    ASSERT_TRUE(db->Exec("UPDATE templates SET record = '" + damaged + "'"));
    EXPECT_NE(error((*templates)->Load()).find("template-1"), std::string::npos) << damaged;
  }
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace atl::sandbox
