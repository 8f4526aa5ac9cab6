#include "runtime/sandbox/store/gone_ids.h"

#include <gtest/gtest.h>

#include "runtime/sandbox/store/store.h"

namespace atl::sandbox {
namespace {

class GoneIdsTest : public testing::Test {
 protected:
  GoneIdsTest() { Open(GoneIds::kKept); }
  void Open(int64_t kept) { gone = std::move(*GoneIds::Open(store->db(), kept)); }
  void Add(const std::string& id, const std::string& tenant = "") {
    Sandbox sandbox;
    sandbox.id = id;
    sandbox.tenant = tenant;
    ASSERT_TRUE(store->Insert(sandbox));
  }
  bool Has(const std::string& id) { return gone->OwnerOf(id).value().has_value(); }

  std::unique_ptr<Store> store = std::move(*Store::Open(":memory:"));
  std::unique_ptr<GoneIds> gone;
};

TEST_F(GoneIdsTest, KnowsWhatWasRemoved) {
  Add("a");
  Add("b");
  EXPECT_FALSE(Has("a"));
  ASSERT_TRUE(store->Remove("a"));
  EXPECT_TRUE(Has("a"));
  EXPECT_FALSE(Has("b"));
  ASSERT_TRUE(store->Remove("never"));
  EXPECT_FALSE(Has("never"));
  ASSERT_TRUE(store->RemoveAll());
  EXPECT_TRUE(Has("b"));
}

TEST_F(GoneIdsTest, InTheTransactionOfTheRemoval) {
  Add("a");
  {
    const auto transaction = sqlite::Transaction::Begin(store->db());
    ASSERT_TRUE(store->Remove("a"));
    EXPECT_TRUE(Has("a"));
  }
  EXPECT_FALSE(Has("a"));
}

TEST_F(GoneIdsTest, KeepsTheNewest) {
  Open(3);
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    Add(id);
    ASSERT_TRUE(store->Remove(id));
  }
  EXPECT_FALSE(Has("a"));
  EXPECT_FALSE(Has("b"));
  for (const char* id : {"c", "d", "e"}) EXPECT_TRUE(Has(id)) << id;
}

TEST_F(GoneIdsTest, KeepsWhoseItWas) {
  Add("a");
  Add("b", "red");
  // A variable of a sandbox may look like an owner, and is none.
  Sandbox odd;
  odd.id = "c";
  odd.spec.env = {{"tenant", "red"}, {"x", "\"tenant\":\"red\""}};
  ASSERT_TRUE(store->Insert(odd));
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(store->Remove(id));
  EXPECT_EQ(gone->OwnerOf("a").value(), "");
  EXPECT_EQ(gone->OwnerOf("b").value(), "red");
  EXPECT_EQ(gone->OwnerOf("c").value(), "");
  EXPECT_EQ(gone->OwnerOf("d").value(), std::nullopt);
}

TEST_F(GoneIdsTest, AMemberIsItsClientsAfterTheClaim) {
  Add("a");
  Sandbox claimed;
  claimed.id = "a";
  claimed.tenant = "red";
  ASSERT_TRUE(store->Reinsert(claimed, std::nullopt));
  ASSERT_TRUE(store->Remove("a"));
  EXPECT_EQ(gone->OwnerOf("a").value(), "red");
}

TEST_F(GoneIdsTest, SurvivesItsOwner) {
  Add("a");
  Add("b");
  ASSERT_TRUE(store->Remove("a"));
  gone.reset();
  // The database remembers the id whoever removes the record, also without GoneIds.
  ASSERT_TRUE(store->Remove("b"));
  Open(GoneIds::kKept);
  EXPECT_TRUE(Has("a"));
  EXPECT_TRUE(Has("b"));
}

}  // namespace
}  // namespace atl::sandbox
