// Stores of older and of newer releases.
#include "runtime/sandbox/store/schema.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/sandbox/store/gone_store.h"
#include "runtime/sandbox/store/store.h"
#include "tests/unit/sandbox/fakes.h"
#include "tests/unit/sandbox/sample.h"
#include "tests/unit/sandbox/stores/records.h"

namespace atl::sandbox {

// Found by the position of their fields, like those of sample.h.
template <MaybeConst<VolumeRecord> R, typename F>
void EachMember(R& r, F each) {
  auto& [directory, state, created, owner, tenant, disk] = r;
  [&](auto&... all) { (each(all), ...); }(directory, state, created, owner, tenant, disk);
}
template <MaybeConst<PoolCapacity> R, typename F>
void EachMember(R& r, F each) {
  auto& [buffer_min, buffer_max, pool_min, pool_max] = r;
  [&](auto&... all) { (each(all), ...); }(buffer_min, buffer_max, pool_min, pool_max);
}
template <MaybeConst<PoolRecord> R, typename F>
void EachMember(R& r, F each) {
  auto& [key, image, limits, capacity, created, tenant] = r;
  [&](auto&... all) { (each(all), ...); }(key, image, limits, capacity, created, tenant);
}
template <MaybeConst<wire::Preparation> R, typename F>
void EachMember(R& r, F each) {
  auto& [port, probe, wait, command, kernel, timeout] = r;
  [&](auto&... all) { (each(all), ...); }(port, probe, wait, command, kernel, timeout);
}
template <MaybeConst<TemplateRecord> R, typename F>
void EachMember(R& r, F each) {
  auto& [id, image, limits, entrypoint, env, metadata, preparation, stock, publish, format, probe,
         warmup, succeeded, failure, created, updated, tenant] = r;
  [&](auto&... all) { (each(all), ...); }(id, image, limits, entrypoint, env, metadata, preparation,
                                          stock, publish, format, probe, warmup, succeeded, failure,
                                          created, updated, tenant);
}
template <MaybeConst<Snapshot> R, typename F>
void EachMember(R& r, F each) {
  auto& [id, tenant, sandbox, name, state, reason, message, created, transition, size, image,
         digest, config, metadata, layers] = r;
  auto& [env, entrypoint, cmd, working_dir, user, architecture, labels, exposed_ports, volumes,
         shell, stop_signal] = config;
  [&](auto&... all) { (each(all), ...); }(
      id, tenant, sandbox, name, state, reason, message, created, transition, size, image, digest,
      env, entrypoint, cmd, working_dir, user, architecture, labels, exposed_ports, volumes, shell,
      stop_signal, metadata, layers);
}
template <MaybeConst<KeyRecord> R, typename F>
void EachMember(R& r, F each) {
  auto& [tenant, key, fingerprint, sandboxes, made] = r;
  [&](auto&... all) { (each(all), ...); }(tenant, key, fingerprint, sandboxes, made);
}
template <MaybeConst<HistoryEvent> R, typename F>
void EachMember(R& r, F each) {
  auto& [time, kind, reason, message] = r;
  [&](auto&... all) { (each(all), ...); }(time, kind, reason, message);
}

namespace {

// Compares the records in any order.
template <typename Record>
void ExpectAll(const Result<std::vector<Record>>& found, const std::vector<Record>& expected) {
  ASSERT_TRUE(found) << found.error().message();
  const auto texts_of = [](const std::vector<Record>& records) {
    std::vector<std::vector<std::string>> texts;
    for (const Record& record : records) texts.push_back(TextsOf(record));
    std::sort(texts.begin(), texts.end());
    return texts;
  };
  EXPECT_EQ(texts_of(*found), texts_of(expected));
}

class SchemaTest : public testing::Test {
 protected:
  SchemaTest() {
    EXPECT_NE(::mkdtemp(directory_), nullptr);
    Have(2);
  }
  ~SchemaTest() override { std::filesystem::remove_all(directory_); }

  std::string Path() const { return std::string(directory_) + "/atoll.db"; }
  // Makes the store of the release with that schema.
  void Have(int schema) {
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(Path() + end);
    std::ifstream file(SANDBOX_STORES "/schema_" + std::to_string(schema) + ".sql");
    std::stringstream text;
    text << file.rdbuf();
    Run(text.str());
  }
  // Runs SQL on the store file, whatever its schema.
  void Run(const std::string& sql) {
    auto db = sqlite::Db::Open(Path());
    ASSERT_TRUE(db);
    const auto done = db->Exec(sql);
    ASSERT_TRUE(done) << done.error().message();
  }
  std::string Ask(const std::string& sql) {
    auto db = sqlite::Db::Open(Path());
    auto row = db->Prepare(sql);
    const bool is_there = row && row->Step().value_or(false);
    EXPECT_TRUE(is_there) << sql;
    return is_there ? row->ColumnText(0) : "";
  }
  // Returns "" if the daemon can start with the store.
  std::string ErrorOfLoading() {
    const auto error = [](const auto& loaded) {
      return loaded ? std::string() : loaded.error().message();
    };
    auto store = Store::Open(Path());
    if (!store) return store.error().message();
    return error((*store)->Load()) + error((*VolumeStore::Open(Path()))->Load()) +
           error((*PoolStore::Open(Path()))->Load()) +
           error((*TemplateStore::Open(Path()))->Load()) +
           error((*SnapshotStore::Open(Path()))->Load());
  }
  void ExpectAllRecords() {
    auto store = Store::Open(Path());
    ASSERT_TRUE(store) << store.error().message();
    ExpectAll((*store)->Load(), stored::Sandboxes());
    ExpectAll((*store)->LoadKeys(), stored::Keys());
    ExpectAll((*VolumeStore::Open(Path()))->Load(), stored::Volumes());
    ExpectAll((*PoolStore::Open(Path()))->Load(), stored::Pools());
    ExpectAll((*TemplateStore::Open(Path()))->Load(), stored::Templates());
    ExpectAll((*SnapshotStore::Open(Path()))->Load(), stored::Snapshots());
    FakeClock clock;
    FakeLoop loop(clock);
    auto history = History::Open((*store)->db(), loop);
    ASSERT_TRUE(history);
    ExpectAll((*history)->Find(stored::Full().id), stored::Events());
    auto gone = GoneStore::Open((*store)->db());
    ASSERT_TRUE(gone);
    for (const std::string& id : stored::Gone()) EXPECT_EQ(*(*gone)->OwnerOf(id), "") << id;
    // A migration removes no sandbox.
    EXPECT_FALSE((*gone)->OwnerOf(stored::Full().id)->has_value());
  }

 private:
  char directory_[32] = "/tmp/schema_test_XXXXXX";
};

TEST_F(SchemaTest, AStoreOfTheLastReleaseHasAllItsRecords) {
  ExpectAllRecords();
  // Migrated records read like newly written ones.
  ExpectAllRecords();
}

TEST_F(SchemaTest, AStoreFromBeforeThereWereOwnersIsTheHosts) {
  Have(3);
  ExpectAllRecords();
  EXPECT_EQ(Ask("SELECT count(*) FROM sandboxes WHERE tenant = ''"), "11");
}

TEST_F(SchemaTest, AStoreFromBeforeThereWasAHistoryHasAnEmptyOne) {
  Have(4);
  ExpectAllRecords();
  EXPECT_EQ(Ask("SELECT count(*) FROM gone WHERE record IS NOT NULL"), "0");
}

TEST_F(SchemaTest, WhatTheLastReleaseHadNoUseForIsThereNow) {
  Run("DROP TABLE volumes; DROP TABLE pools; DROP TABLE templates; DROP TABLE snapshots;"
      "DROP TRIGGER remember_gone; DROP TABLE gone; DROP TABLE history");
  EXPECT_EQ(ErrorOfLoading(), "");
}

TEST_F(SchemaTest, ATextThatIsNotUtf8IsReadable) {
  Run("UPDATE sandboxes SET message = CAST(x'61ff62' AS TEXT) WHERE slot = 22");
  auto store = Store::Open(Path());
  ASSERT_TRUE(store) << store.error().message();
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto changed =
      std::find_if(loaded->begin(), loaded->end(), [](const Sandbox& s) { return s.slot == 22; });
  ASSERT_NE(changed, loaded->end());
  EXPECT_EQ(changed->message, "a\uFFFDb");
}

// A step migrates the snapshots last.
TEST_F(SchemaTest, AStepThatFailsChangesNothing) {
  const std::string one = stored::Snapshots()[1].id,
                    kept = Ask("SELECT restore FROM snapshots WHERE id = '" + one + "'");
  Run("UPDATE snapshots SET restore = '{' WHERE id = '" + one + "'");
  const std::string error = ErrorOfLoading();
  EXPECT_NE(error.find(one), std::string::npos) << error;
  EXPECT_EQ(Ask("PRAGMA user_version"), "2");
  // The columns that the last release reads.
  EXPECT_EQ(Ask("SELECT count(spec) FROM sandboxes"), "11");
  EXPECT_EQ(Ask("SELECT count(owner) FROM volumes"), "4");
  Run("UPDATE snapshots SET restore = '" + kept + "' WHERE id = '" + one + "'");
  ExpectAllRecords();
}

TEST_F(SchemaTest, ANewerSchemaIsRefusedAndLeftAlone) {
  EXPECT_EQ(ErrorOfLoading(), "");
  Run("PRAGMA user_version = 1000; ALTER TABLE volumes RENAME TO later");
  for (const auto& error : {Store::Open(Path()).error(), VolumeStore::Open(Path()).error()}) {
    EXPECT_EQ(error.code(), Code::kFailedPrecondition);
    EXPECT_NE(error.message().find("a newer Atoll has written it (schema 1000"), std::string::npos)
        << error.message();
  }
  EXPECT_EQ(Ask("PRAGMA user_version"), "1000");
  EXPECT_EQ(Ask("SELECT count(*) FROM later"), "4");
}

// The unknown field may be a limit. A daemon that does not know it must not run the sandbox without
// it.
TEST_F(SchemaTest, AFieldOfANewerReleaseIsRefused) {
  ASSERT_EQ(ErrorOfLoading(), "");
  const std::string cases[][3] = {{"sandboxes", "record", "$.later"},
                                  {"sandboxes", "record", "$.limits.later"},
                                  {"sandboxes", "record", "$.config.later"},
                                  {"sandboxes", "record", "$.volumes[1].later"},
                                  {"sandboxes", "moves", "$.later"},
                                  {"volumes", "record", "$.later"},
                                  {"pools", "record", "$.later"},
                                  {"templates", "record", "$.later"},
                                  {"snapshots", "record", "$.later"},
                                  {"snapshots", "record", "$.config.later"}};
  for (const auto& [table, column, path] : cases) {
    SCOPED_TRACE(table + " " + path);
    const std::string of = " WHERE id = (SELECT id FROM " + table +
                           " WHERE record LIKE '%PATH=/bin%' OR '" + table +
                           "' NOT IN ('sandboxes', 'snapshots') LIMIT 1)";
    const std::string id = Ask("SELECT id FROM " + table + of);
    Run("UPDATE " + table + " SET " + column + " = json_insert(" + column + ", '" + path + "', 1)" +
        of);
    const std::string error = ErrorOfLoading();
    EXPECT_NE(error.find(id), std::string::npos) << error;
    EXPECT_NE(error.find("'later' is not known here: a newer Atoll"), std::string::npos) << error;
    Run("UPDATE " + table + " SET " + column + " = json_remove(" + column + ", '" + path + "')" +
        of);
    EXPECT_EQ(ErrorOfLoading(), "");
  }
}

TEST_F(SchemaTest, AFieldThatIsMissingOrOfAnotherKindIsRefused) {
  ASSERT_EQ(ErrorOfLoading(), "");
  const std::string cases[][2] = {
      {"json_remove(record, '$.layers')", "'layers' is missing"},
      {"json_set(record, '$.layers', 'all')", "'layers' is not a list"},
      {"json_set(record, '$.layers[0]', 4294967296)", "'layers' is out of range"},
      {"json_set(record, '$.limits.memory', -1)", "'memory' is not such a number"},
      {"json_set(record, '$.readonly_root', 1)", "'readonly_root' is not true or false"},
      {"json_set(record, '$.token', 7)", "'token' is not a text"},
      {"json_set(record, '$.env.A', 7)", "'env' is not a text"},
      {"json_set(record, '$.policy', 'no')", "'policy' is no policy"},
      {"json_set(record, '$.volumes[0].kind', 'disk')", "'kind' has no such word"},
      {"'{'", "not JSON"},
      {"'[]'", "not an object"}};
  const std::string one = " WHERE id = '" + stored::Full().id + "'";
  Run("CREATE TABLE kept AS SELECT record FROM sandboxes" + one);
  for (const auto& [change, words] : cases) {
    Run("UPDATE sandboxes SET record = " + change + one);
    const std::string error = ErrorOfLoading();
    EXPECT_NE(error.find(stored::Full().id), std::string::npos) << error;
    EXPECT_NE(error.find(words), std::string::npos) << error << ", expected: " << words;
    Run("UPDATE sandboxes SET record = (SELECT record FROM kept)" + one);
  }
  EXPECT_EQ(ErrorOfLoading(), "");
}

}  // namespace
}  // namespace atl::sandbox
