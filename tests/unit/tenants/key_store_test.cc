#include "runtime/tenants/key_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "runtime/base/sqlite.h"
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
  // Opens what is on disk when all changes are durable.
  void Reopen() {
    loop.Run();
    store.reset();
    store = std::move(*KeyStore::Open(directory + "/keys.db", loop, clock));
  }
  // Returns the bytes of the database and its log.
  std::string Bytes() const {
    std::stringstream bytes;
    for (const char* name : {"/keys.db", "/keys.db-wal"}) {
      bytes << std::ifstream(directory + name).rdbuf();
    }
    return bytes.str();
  }
  std::string directory;
  sandbox::FakeClock clock;
  sandbox::FakeLoop loop{clock};
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
  loop.Run();
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

TEST_F(KeyStoreTest, ADurableChangeSurvivesKill9) {
  const std::string secret = store->Make({.tenant = "red"})->secret;
  const std::string gone = store->Make({.tenant = "red"})->secret;
  ASSERT_TRUE(store->Revoke(store->FindBySecret(gone)->id));
  bool durable = false;
  std::unique_ptr<KeyStore> next;
  store->WhenDurable([&](const Status& written) {
    EXPECT_TRUE(written);
    durable = true;
    // The successor of a daemon that was killed in this moment sees these files.
    std::filesystem::create_directory(directory + "/next");
    for (const char* name : {"/keys.db", "/keys.db-wal"}) {
      std::filesystem::copy(directory + name, directory + "/next" + name);
    }
    next = std::move(*KeyStore::Open(directory + "/next/keys.db", loop, clock));
  });
  EXPECT_FALSE(durable);
  loop.Run();
  ASSERT_TRUE(durable);
  ASSERT_NE(next->FindBySecret(secret), nullptr);
  ASSERT_NE(next->FindBySecret(gone), nullptr);
  EXPECT_FALSE(next->FindBySecret(gone)->IsAlive(clock.unix_ms));
}

TEST_F(KeyStoreTest, TheLoopWritesNothing) {
  const std::string id = store->Make({.tenant = "red"})->record.id;
  loop.Run();
  const std::string before = Bytes();
  ASSERT_TRUE(store->Revoke(id));
  ASSERT_TRUE(store->Make({.tenant = "red"}));
  bool asked = false;
  loop.on_call = [&](const char* call) {
    if (std::string_view(call) == "pool asked") asked = true;
    EXPECT_EQ(Bytes(), before) << call;
  };
  store->WhenDurable([](const Status&) {});
  loop.Run();
  loop.on_call = nullptr;
  EXPECT_TRUE(asked);
  EXPECT_NE(Bytes(), before);
}

TEST_F(KeyStoreTest, ChangesThatCannotBeWrittenAreUndone) {
  const std::string id = store->Make({.tenant = "red"})->record.id;
  loop.Run();
  {
    auto other = *sqlite::Db::Open(directory + "/keys.db");
    ASSERT_TRUE(other.Exec("ALTER TABLE keys RENAME TO lost"));
  }
  const std::string made = store->Make({.tenant = "red"})->record.id;
  ASSERT_TRUE(store->Revoke(id));
  std::vector<std::string> told;
  store->WhenDurable([&](const Status& written) { told.push_back(written ? "" : "failed"); });
  loop.Run();
  EXPECT_EQ(told, std::vector<std::string>{"failed"});
  EXPECT_EQ(store->Find(made), nullptr);
  EXPECT_TRUE(store->Find(id)->IsAlive(clock.unix_ms));
  {
    auto other = *sqlite::Db::Open(directory + "/keys.db");
    ASSERT_TRUE(other.Exec("ALTER TABLE lost RENAME TO keys"));
  }
  ASSERT_TRUE(store->Revoke(id));
  Reopen();
  EXPECT_EQ(store->Find(made), nullptr);
  EXPECT_FALSE(store->Find(id)->IsAlive(clock.unix_ms));
}

TEST_F(KeyStoreTest, UseIsWrittenOnceAMinute) {
  const std::string id = store->Make({.tenant = "red"})->record.id;
  store->Use(id);
  const int64_t first = clock.unix_ms;
  clock.Advance(59'000'000);
  store->Use(id);
  EXPECT_EQ(store->Find(id)->last_use_ms, first);
  store->WriteUses();
  loop.Run();
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
  store->WriteUses();
  loop.Run();
  EXPECT_NE(store->Find(revoked), nullptr);
  clock.unix_ms += 1;
  store->WriteUses();
  loop.Run();
  EXPECT_EQ(store->Find(revoked), nullptr);
  Reopen();
  EXPECT_EQ(store->Find(revoked), nullptr);
  EXPECT_NE(store->Find(alive), nullptr);
}

TEST_F(KeyStoreTest, ATenantHasABoundedNumberOfKeys) {
  store = std::move(*KeyStore::Open(":memory:", loop, clock));
  for (size_t i = 0; i < kMostKeysOfTenant; ++i) ASSERT_TRUE(store->Make({.tenant = "red"}));
  EXPECT_EQ(store->Make({.tenant = "red"}).error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(store->Make({.tenant = "blue"}));
}

}  // namespace
}  // namespace atl::tenants
