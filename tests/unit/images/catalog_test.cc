// images.db of older and of newer releases.
#include "images/catalog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "runtime/base/sqlite.h"

namespace atl::images {
namespace {

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() { EXPECT_NE(::mkdtemp(directory_), nullptr); }
  ~CatalogTest() override { std::filesystem::remove_all(directory_); }
  std::string Path() const { return std::string(directory_) + "/images.db"; }
  void Run(const std::string& sql) {
    auto db = sqlite::Db::Open(Path());
    ASSERT_TRUE(db);
    const auto done = db->Exec(sql);
    ASSERT_TRUE(done) << done.error().message();
  }

 private:
  char directory_[32] = "/tmp/catalog_test_XXXXXX";
};

TEST_F(CatalogTest, ReadsLayersThatDoNotSayWhatTheyHold) {
  Run("CREATE TABLE layers(id INTEGER PRIMARY KEY AUTOINCREMENT, blob_digest TEXT NOT NULL,"
      " diff_id TEXT NOT NULL, size INTEGER NOT NULL, opaque_root INTEGER NOT NULL,"
      " state INTEGER NOT NULL);"
      "INSERT INTO layers VALUES(3, 'sha256:blob', 'sha256:diff', 7, 1, 1);"
      "PRAGMA user_version = 1");
  for (int i = 0; i < 2; ++i) {
    auto catalog = Catalog::Open(Path());
    ASSERT_TRUE(catalog) << catalog.error().message();
    const auto layers = catalog->LoadLayers();
    ASSERT_TRUE(layers && layers->size() == 1U);
    EXPECT_EQ(layers->at(0).id, 3U);
    EXPECT_EQ(layers->at(0).diff_id, "sha256:diff");
    EXPECT_EQ(layers->at(0).content, "");
  }
}

TEST_F(CatalogTest, RefusesAndLeavesWhatANewerReleaseHasWritten) {
  ASSERT_TRUE(Catalog::Open(Path()));
  Run("PRAGMA user_version = 1000; ALTER TABLE layers RENAME TO later");
  const auto catalog = Catalog::Open(Path());
  ASSERT_FALSE(catalog);
  EXPECT_EQ(catalog.error().code(), Code::kFailedPrecondition);
  EXPECT_NE(catalog.error().message().find(Path()), std::string::npos);
  Run("SELECT id FROM later");
}

}  // namespace
}  // namespace atl::images
