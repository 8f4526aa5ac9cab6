#include "runtime/tenants/key_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/sandbox/fakes.h"

namespace atl::tenants {
namespace {

class KeyStoreTest : public testing::Test {
 protected:
  KeyStoreTest() {
    char name[] = "/tmp/keys_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    Reopen();
  }
  ~KeyStoreTest() override { std::filesystem::remove_all(directory); }
  void Reopen() {
    store.reset();
    store = std::move(*KeyStore::Open(directory + "/keys.db", clock));
  }
  std::string directory;
  sandbox::FakeClock clock;
  std::unique_ptr<KeyStore> store;
};

TEST_F(KeyStoreTest, AKeySurvivesTheDaemon) {
  const auto narrowing = std::make_shared<Narrowing>();
  narrowing->routes = {"GET /metrics"};
  narrowing->images = {"python:*"};
  narrowing->max.memory_bytes = 1 << 30;
  const auto made = store->Make({.tenant = "red",
                                 .role = Role::kViewer,
                                 .name = "ci",
                                 .creator = "k_maker",
                                 .expires_at_ms = clock.unix_ms + 1000,
                                 .narrowing = narrowing});
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_TRUE(IsStoredKey(made->secret));
  EXPECT_EQ(made->secret.size(), 4U + 8 + 1 + 43);
  Reopen();
  const KeyRecord* found = store->FindBySecret(made->secret);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->id, made->record.id);
  EXPECT_EQ(found->tenant, "red");
  EXPECT_EQ(found->role, Role::kViewer);
  EXPECT_EQ(found->name, "ci");
  EXPECT_EQ(found->creator, "k_maker");
  EXPECT_EQ(found->created_at_ms, clock.unix_ms);
  EXPECT_EQ(found->expires_at_ms, clock.unix_ms + 1000);
  EXPECT_EQ(*found->narrowing, *narrowing);
}

TEST_F(KeyStoreTest, NoFileHoldsTheSecret) {
  const auto made = store->Make({.tenant = "red"});
  ASSERT_TRUE(made);
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    std::stringstream bytes;
    bytes << std::ifstream(file.path()).rdbuf();
    EXPECT_EQ(bytes.str().find(made->secret.substr(13)), std::string::npos) << file.path();
  }
}

TEST_F(KeyStoreTest, OnlyTheWholeKeyIsTheKey) {
  const std::string secret = store->Make({.tenant = "red"})->secret;
  EXPECT_NE(store->FindBySecret(secret), nullptr);
  for (size_t i = 0; i < secret.size(); ++i) {
    std::string wrong = secret;
    wrong[i] = wrong[i] == 'x' ? 'y' : 'x';
    EXPECT_EQ(store->FindBySecret(wrong), nullptr) << i;
  }
  EXPECT_EQ(store->FindBySecret(secret.substr(0, secret.size() - 1)), nullptr);
  EXPECT_EQ(store->FindBySecret(secret + "x"), nullptr);
  EXPECT_EQ(store->FindBySecret(""), nullptr);
}

TEST_F(KeyStoreTest, RevocationAndExpirySurvive) {
  const std::string a = store->Make({.tenant = "red"})->record.id;
  const std::string b = store->Make({.tenant = "red"})->record.id;
  ASSERT_TRUE(store->Revoke(a));
  ASSERT_TRUE(store->SetExpiry(b, clock.unix_ms + 5));
  EXPECT_EQ(store->Revoke("k_nobody1").error().code(), Code::kNotFound);
  Reopen();
  EXPECT_FALSE(store->Find(a)->IsAlive(clock.unix_ms));
  EXPECT_TRUE(store->Find(b)->IsAlive(clock.unix_ms));
  EXPECT_FALSE(store->Find(b)->IsAlive(clock.unix_ms + 5));
}

TEST_F(KeyStoreTest, UseIsWrittenOnceAMinute) {
  const std::string id = store->Make({.tenant = "red"})->record.id;
  store->Use(id);
  const int64_t first = clock.unix_ms;
  clock.Advance(59'000'000);
  store->Use(id);
  EXPECT_EQ(store->Find(id)->last_use_ms, first);
  ASSERT_TRUE(store->WriteUses());
  Reopen();
  EXPECT_EQ(store->Find(id)->last_use_ms, first);
  clock.Advance(1'000'000);
  store->Use(id);
  EXPECT_EQ(store->Find(id)->last_use_ms, clock.unix_ms);
}

TEST_F(KeyStoreTest, AnEndedKeyIsForgottenAfterAMonth) {
  const std::string revoked = store->Make({.tenant = "red"})->record.id;
  const std::string alive = store->Make({.tenant = "red"})->record.id;
  ASSERT_TRUE(store->Revoke(revoked));
  clock.unix_ms += KeyStore::kKeepEndedMs;
  ASSERT_TRUE(store->WriteUses());
  EXPECT_NE(store->Find(revoked), nullptr);
  clock.unix_ms += 1;
  ASSERT_TRUE(store->WriteUses());
  EXPECT_EQ(store->Find(revoked), nullptr);
  Reopen();
  EXPECT_EQ(store->Find(revoked), nullptr);
  EXPECT_NE(store->Find(alive), nullptr);
}

TEST_F(KeyStoreTest, ATenantHasABoundedNumberOfKeys) {
  store = std::move(*KeyStore::Open(":memory:", clock));
  for (size_t i = 0; i < kMostKeysOfTenant; ++i) ASSERT_TRUE(store->Make({.tenant = "red"}));
  EXPECT_EQ(store->Make({.tenant = "red"}).error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(store->Make({.tenant = "blue"}));
}

}  // namespace
}  // namespace atl::tenants
