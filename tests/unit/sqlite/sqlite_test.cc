#include "runtime/base/sqlite.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace atl::sqlite {
namespace {

class SqliteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/atoll-sqlite-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string Path() const { return directory_ + "/t.db"; }

  Db OpenTable(int busy_timeout_ms = 0) {
    auto db = Db::Open(Path(), {.busy_timeout_ms = busy_timeout_ms});
    EXPECT_TRUE(db.has_value()) << db.error().message();
    EXPECT_TRUE(
        db->Exec("CREATE TABLE IF NOT EXISTS t(k TEXT PRIMARY KEY, v, "
                 "n INTEGER CHECK(n < 100))"));
    return std::move(*db);
  }

  std::string directory_;
};

int64_t CountRows(Db& db) {
  auto stmt = db.Prepare("SELECT count(*) FROM t");
  EXPECT_TRUE(stmt.has_value() && stmt->Step().value_or(false));
  return stmt->ColumnInt(0);
}

TEST_F(SqliteTest, StoresAndReadsEveryType) {
  Db db = OpenTable();
  const std::string blob("a\0b\xff", 4);
  auto insert = db.Prepare("INSERT INTO t VALUES(?1, ?2, ?3)");
  ASSERT_TRUE(insert);
  ASSERT_TRUE(insert->Bind(1, "x").BindBlob(2, blob).Bind(3, int64_t{42}).Run());
  ASSERT_TRUE(insert->Bind(1, std::string_view()).BindNull(2).Bind(3, int64_t{-1}).Run());
  EXPECT_EQ(db.Changes(), 1);
  auto select = db.Prepare("SELECT k, v, n FROM t ORDER BY n");
  ASSERT_TRUE(select);
  ASSERT_TRUE(select->Step().value());
  EXPECT_EQ(select->ColumnText(0), "");
  EXPECT_FALSE(select->ColumnIsNull(0));  // an empty text is not NULL
  EXPECT_TRUE(select->ColumnIsNull(1));
  ASSERT_TRUE(select->Step().value());
  EXPECT_EQ(select->ColumnText(1), blob);
  EXPECT_EQ(select->ColumnInt(2), 42);
  EXPECT_FALSE(select->Step().value());
}

TEST_F(SqliteTest, FileIsForTheOwnerOnly) {
  const mode_t old = umask(0);
  Db db = OpenTable();
  umask(old);
  // The lock is for this process alone, so there is no "-shm" that other processes could use to
  // read.
  for (const char* suffix : {"", "-wal"}) {
    struct stat st {};
    ASSERT_EQ(stat((Path() + suffix).c_str(), &st), 0) << suffix;
    EXPECT_EQ(st.st_mode & 0777, 0600U) << suffix;
  }
}

TEST_F(SqliteTest, ErrorsCarryTheirCode) {
  Db db = OpenTable();
  ASSERT_TRUE(db.Exec("INSERT INTO t VALUES('a', 1, 1)"));
  auto duplicate = db.Exec("INSERT INTO t VALUES('a', 2, 2)");
  ASSERT_FALSE(duplicate);
  EXPECT_EQ(duplicate.error().code(), Code::kAlreadyExists);
  EXPECT_NE(duplicate.error().message().find("t.db"), std::string::npos);
  auto check = db.Exec("INSERT INTO t VALUES('b', 2, 100)");
  ASSERT_FALSE(check);
  EXPECT_EQ(check.error().code(), Code::kFailedPrecondition);
  EXPECT_FALSE(db.Prepare("SELEKT"));
  EXPECT_FALSE(db.Prepare(""));
  EXPECT_FALSE(db.Prepare("SELECT 1; SELECT 2"));
}

TEST_F(SqliteTest, TransactionRollsBackUnlessCommitted) {
  Db db = OpenTable();
  {
    auto txn = Transaction::Begin(db);
    ASSERT_TRUE(txn);
    ASSERT_TRUE(db.Exec("INSERT INTO t VALUES('a', 1, 1)"));
  }
  EXPECT_EQ(CountRows(db), 0);
  auto txn = Transaction::Begin(db);
  ASSERT_TRUE(txn);
  ASSERT_TRUE(db.Exec("INSERT INTO t VALUES('a', 1, 1)"));
  ASSERT_TRUE(txn->Commit());
  EXPECT_EQ(CountRows(db), 1);
}

TEST_F(SqliteTest, ALockedDatabaseIsUnavailable) {
  Db first = OpenTable();
  Db second = OpenTable();
  auto txn = Transaction::Begin(first);
  ASSERT_TRUE(txn);
  auto blocked = Transaction::Begin(second);
  ASSERT_FALSE(blocked);
  EXPECT_EQ(blocked.error().code(), Code::kUnavailable);
}

TEST_F(SqliteTest, CommittedRowsSurviveReopening) {
  {
    Db db = OpenTable();
    ASSERT_TRUE(db.SetUserVersion(7));
    ASSERT_TRUE(db.Exec("INSERT INTO t VALUES('a', 1, 1)"));
  }
  Db db = OpenTable();
  EXPECT_EQ(db.UserVersion().value(), 7);
  EXPECT_EQ(CountRows(db), 1);
}

TEST_F(SqliteTest, AFileThatIsNoDatabaseIsRefused) {
  std::ofstream(Path()) << std::string(4096, 'x');
  auto db = Db::Open(Path());
  ASSERT_FALSE(db);
  EXPECT_EQ(db.error().code(), Code::kInternal);
}

TEST_F(SqliteTest, AMissingDirectoryIsNotFound) {
  auto db = Db::Open(directory_ + "/no/t.db");
  ASSERT_FALSE(db);
  EXPECT_EQ(db.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace atl::sqlite
