#include "runtime/sandbox/store/gone_store.h"

#include <gtest/gtest.h>

#include "runtime/sandbox/store/store.h"
#include "tests/unit/sandbox/sample.h"

namespace atl::sandbox {
namespace {

class GoneStoreTest : public testing::Test {
 protected:
  GoneStoreTest() { Open(GoneStore::kKept); }
  void Open(int64_t kept) { gone = std::move(*GoneStore::Open(store->db(), kept)); }
  void Add(const std::string& id, const std::string& tenant = "") {
    Sandbox sandbox;
    sandbox.id = id;
    sandbox.tenant = tenant;
    ASSERT_TRUE(store->Insert(sandbox));
  }
  bool Has(const std::string& id) { return gone->OwnerOf(id).value().has_value(); }

  std::unique_ptr<Store> store = std::move(*Store::Open(":memory:"));
  std::unique_ptr<GoneStore> gone;
};

TEST_F(GoneStoreTest, KnowsWhatWasRemoved) {
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

TEST_F(GoneStoreTest, InTheTransactionOfTheRemoval) {
  Add("a");
  {
    const auto transaction = sqlite::Transaction::Begin(store->db());
    ASSERT_TRUE(store->Remove("a"));
    EXPECT_TRUE(Has("a"));
  }
  EXPECT_FALSE(Has("a"));
}

TEST_F(GoneStoreTest, KeepsTheNewest) {
  Open(3);
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    Add(id);
    ASSERT_TRUE(store->Remove(id));
  }
  EXPECT_FALSE(Has("a"));
  EXPECT_FALSE(Has("b"));
  for (const char* id : {"c", "d", "e"}) EXPECT_TRUE(Has(id)) << id;
}

TEST_F(GoneStoreTest, KeepsWhoseItWas) {
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

TEST_F(GoneStoreTest, AMemberIsItsClientsAfterTheClaim) {
  Add("a");
  Sandbox claimed;
  claimed.id = "a";
  claimed.tenant = "red";
  ASSERT_TRUE(store->Reinsert(claimed, std::nullopt));
  ASSERT_TRUE(store->Remove("a"));
  EXPECT_EQ(gone->OwnerOf("a").value(), "red");
}

TEST_F(GoneStoreTest, KeepsNoSecrets) {
  Sandbox s = Sample();
  s.spec.entrypoint = {"sh", "-c", "login hunter2"};
  s.spec.env = {{"TOKEN", "hunter2"}};
  s.spec.extensions = {{"x", "hunter2"}};
  s.access_token = s.secure_token = "hunter2";
  s.authority.key = "hunter2";
  s.config.env = {"TOKEN=hunter2"};
  s.device_env = {"TOKEN=hunter2"};
  ASSERT_TRUE(gone->Keep(Remains(s), 5, ""));
  auto row = store->db().Prepare("SELECT record FROM gone");
  ASSERT_TRUE(row->Step().value());
  EXPECT_EQ(row->ColumnText(0).find("hunter2"), std::string::npos) << row->ColumnText(0);
  row->Reset();
  const auto found = gone->Find(s.id);
  ASSERT_TRUE(found && *found) << found.error().message();
  const Sandbox& kept = (*found)->sandbox;
  EXPECT_EQ(kept.spec.image, s.spec.image);
  EXPECT_EQ(kept.spec.entrypoint, std::vector<std::string>{"sh"});
  EXPECT_EQ(kept.spec.env, (std::map<std::string, std::string>{{"TOKEN", ""}}));
  EXPECT_EQ(kept.spec.limits, s.spec.limits);
  EXPECT_EQ(kept.metadata, s.metadata);
  EXPECT_EQ(kept.tenant, s.tenant);
  EXPECT_EQ(kept.created_at_ms, s.created_at_ms);
  EXPECT_EQ(kept.denials, s.denials);
  EXPECT_EQ(kept.message, s.message);
}

TEST_F(GoneStoreTest, KeepsFewKilobytesOfNames) {
  Sandbox s = Sample();
  s.spec.env.clear();
  for (int i = 0; i < 5000; ++i) s.spec.env[std::to_string(i) + std::string(95, 'N')] = "value";
  // Characters of three bytes, so that the limit is within one.
  std::string program;
  for (int i = 0; i < 50'000; ++i) program += "€";
  s.spec.entrypoint = {program};
  const Sandbox kept = Remains(s);
  constexpr size_t kMostKeptNames = 4096;
  size_t bytes = 0;
  for (const auto& [name, value] : kept.spec.env) bytes += name.size();
  EXPECT_GT(bytes, kMostKeptNames / 2);
  EXPECT_LT(bytes, kMostKeptNames + 100);
  const size_t shown = kept.spec.env.size() - 1;
  EXPECT_EQ(kept.spec.env.rbegin()->first, "… and " + std::to_string(5000 - shown) + " more");
  ASSERT_EQ(kept.spec.entrypoint.size(), 1U);
  EXPECT_LT(kept.spec.entrypoint[0].size(), kMostKeptNames + 4);
  EXPECT_TRUE(kept.spec.entrypoint[0].ends_with("€…"));
  EXPECT_LT(gone->Keep(kept, 5, "").value(), 2 * kMostKeptNames + 4096);
}

TEST_F(GoneStoreTest, TellsTheEndAndNotTheRemoval) {
  Sandbox s;
  s.state = State::kGone;
  s.reason = "USER_DELETE";
  EXPECT_EQ(Remains(s).reason, "USER_DELETE");
  EXPECT_EQ(Remains(s).state, State::kTerminated);
  s.ended = {true, "CONTAINER_EXITED_ERROR", "exit code 3", 7};
  EXPECT_EQ(Remains(s).reason, "CONTAINER_EXITED_ERROR");
  EXPECT_EQ(Remains(s).message, "exit code 3");
  EXPECT_EQ(Remains(s).state, State::kFailed);
  EXPECT_EQ(Remains(s).transition_at_ms, 7);
}

TEST_F(GoneStoreTest, ListsFromTheLatestOn) {
  const auto keep = [this](const std::string& id, const std::string& tenant, int64_t gone_ms) {
    Sandbox s;
    s.id = id;
    s.tenant = tenant;
    s.state = State::kTerminated;
    ASSERT_TRUE(gone->Keep(s, gone_ms, ""));
  };
  keep("a", "red", 10);
  keep("b", "blue", 20);
  keep("c", "red", 30);
  keep("d", "red", 30);
  const auto list = [this](const GoneStore::Query& query) {
    std::string ids;
    EXPECT_TRUE(gone->Visit(query, [&](const GoneSandbox& one) {
      ids += one.sandbox.id;
      return true;
    }));
    return ids;
  };
  EXPECT_EQ(list({}), "dcba");
  EXPECT_EQ(list({.tenant = "red"}), "dca");
  EXPECT_EQ(list({.tenant = ""}), "");
  EXPECT_EQ(list({.since_ms = 20, .until_ms = 30}), "b");
  const int64_t number = (*gone->Find("d"))->number;
  EXPECT_EQ(list({.before_ms = 30, .before_number = number}), "cba");
  EXPECT_EQ(list({.tenant = "red", .before_ms = 30, .before_number = number}), "ca");
  // A record of a newer release is not shown, and holds up nobody.
  ASSERT_TRUE(store->db().Exec("UPDATE gone SET record = '{\"later\":1}' WHERE id = 'c'"));
  EXPECT_EQ(list({.tenant = "red"}), "da");
}

TEST_F(GoneStoreTest, ARecordOutlivesTheIdsOfItsTime) {
  Open(3);
  Sandbox s;
  s.id = "kept";
  s.state = State::kTerminated;
  ASSERT_TRUE(gone->Keep(s, 1, ""));
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    Add(id);
    ASSERT_TRUE(store->Remove(id));
  }
  EXPECT_TRUE(Has("kept"));
  EXPECT_FALSE(Has("b"));
  EXPECT_TRUE(Has("c"));
  ASSERT_TRUE(gone->Drop("kept"));
  EXPECT_FALSE(Has("kept")) << "its id would be too old";
  // A record of these goes, its id stays.
  s.id = "late";
  ASSERT_TRUE(gone->Keep(s, 1, ""));
  ASSERT_TRUE(gone->Drop("late"));
  EXPECT_TRUE(Has("late"));
  EXPECT_FALSE(*gone->Find("late"));
}

TEST_F(GoneStoreTest, SurvivesItsOwner) {
  Add("a");
  Add("b");
  ASSERT_TRUE(store->Remove("a"));
  gone.reset();
  // The database remembers the id whoever removes the record, also without GoneStore.
  ASSERT_TRUE(store->Remove("b"));
  Open(GoneStore::kKept);
  EXPECT_TRUE(Has("a"));
  EXPECT_TRUE(Has("b"));
}

}  // namespace
}  // namespace atl::sandbox
