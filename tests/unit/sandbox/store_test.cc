#include "runtime/sandbox/store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

Sandbox Sample() {
  Sandbox s;
  s.id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
  s.image = "python:3.11";
  s.image_digest = "sha256:ab";
  s.layers = {9, 4, 1};
  s.entrypoint = {"tail", "-f", "/dev/null"};
  s.env = {{"A", "1"}, {"QUOTE", "\"'\\ \xc3\xa9"}};
  s.metadata = {{"team", "ml"}};
  s.platform = Platform{"linux", "amd64"};
  s.limits.memory_bytes = 1ULL << 40;
  s.limits.swap_bytes = 7;
  s.limits.pids = 64;
  s.limits.cpu_millis = 1500;
  s.limits.io_read_bps = 1;
  s.limits.io_write_bps = 2;
  s.limits.io_read_iops = 3;
  s.limits.io_write_iops = 4;
  s.limits.disk_bytes = 10ULL << 30;
  s.access_token = "secret";
  s.created_at_ms = 1700000000123;
  s.expires_at_ms = 1700000600123;
  s.state = State::kRunning;
  s.reason = "CONTAINER_RUNNING";
  s.message = "fine";
  s.transition_at_ms = 1700000000456;
  s.slot = 17;
  return s;
}

void ExpectSame(const Sandbox& a, const Sandbox& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.image, b.image);
  EXPECT_EQ(a.image_digest, b.image_digest);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.entrypoint, b.entrypoint);
  EXPECT_EQ(a.env, b.env);
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.platform.has_value(), b.platform.has_value());
  if (a.platform) {
    EXPECT_EQ(a.platform->os, b.platform->os);
    EXPECT_EQ(a.platform->arch, b.platform->arch);
  }
  EXPECT_EQ(a.limits.memory_bytes, b.limits.memory_bytes);
  EXPECT_EQ(a.limits.swap_bytes, b.limits.swap_bytes);
  EXPECT_EQ(a.limits.pids, b.limits.pids);
  EXPECT_EQ(a.limits.cpu_millis, b.limits.cpu_millis);
  EXPECT_EQ(a.limits.io_read_bps, b.limits.io_read_bps);
  EXPECT_EQ(a.limits.io_write_bps, b.limits.io_write_bps);
  EXPECT_EQ(a.limits.io_read_iops, b.limits.io_read_iops);
  EXPECT_EQ(a.limits.io_write_iops, b.limits.io_write_iops);
  EXPECT_EQ(a.access_token, b.access_token);
  EXPECT_EQ(a.created_at_ms, b.created_at_ms);
  EXPECT_EQ(a.expires_at_ms, b.expires_at_ms);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.transition_at_ms, b.transition_at_ms);
  EXPECT_EQ(a.slot, b.slot);
}

TEST(Store, KeepsEveryField) {
  auto store = Store::Open(":memory:");
  ASSERT_TRUE(store);
  Sandbox bare;
  bare.id = "00000000-0000-4000-8000-000000000000";
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

TEST(Store, ADamagedRecordIsAnErrorWithItsId) {
  char name[] = "/tmp/store_test_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/atoll.db";
  auto store = Store::Open(path);
  ASSERT_TRUE(store);
  ASSERT_TRUE((*store)->Insert(Sample()));
  auto db = sqlite::Db::Open(path);
  ASSERT_TRUE(db);
  ASSERT_TRUE(db->Exec("UPDATE sandboxes SET spec = '{\"image\": 3}'"));
  const auto loaded = (*store)->Load();
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message().find(Sample().id), std::string::npos);
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace atl::sandbox
