#include "runtime/tenants/directory.h"

#include <gtest/gtest.h>

#include "tests/unit/sandbox/fakes.h"
#include "tests/unit/tenants/token_keys.h"

namespace atl::tenants {
namespace {

constexpr char kFileKey[] = "upstream-style-key";
constexpr int64_t kDayUs = 24LL * 3600 * 1'000'000;

class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    directory = std::make_unique<Directory>(
        Directory::Parts{loop, clock, tenants, std::move(*KeyStore::Open(":memory:", loop, clock)),
                         nullptr, "secret"});
    directory->OnEnd([this](const std::string& id) { ended.push_back(id); });
    Take(
        "[[tenants]]\nname = \"red\"\napi_keys = [\"upstream-style-key\"]\n"
        "[[tenants]]\nname = \"blue\"\n");
  }
  void Take(const std::string& text) {
    auto file = ParseTenants(text, "t");
    ASSERT_TRUE(file) << file.error().message();
    directory->Replace(std::move(*file));
  }
  Authenticated Ask(const std::string& secret) {
    Authenticated answer = tl::unexpected(Denial::kUnavailable);
    directory->Authenticate(secret, true,
                            [&answer](Authenticated told) { answer = std::move(told); });
    return answer;
  }
  Denial WhyNot(const std::string& secret) {
    const auto answer = Ask(secret);
    EXPECT_FALSE(answer);
    return answer ? Denial::kUnavailable : answer.error();
  }
  NewKey Make(const KeyRequest& wanted) {
    auto made = directory->Make(wanted, "k_maker");
    EXPECT_TRUE(made) << made.error().message();
    return *made;
  }

  sandbox::FakeClock clock;
  sandbox::FakeLoop loop{clock};
  TenantTable tenants;
  std::vector<std::string> ended;
  std::unique_ptr<Directory> directory;
};

TEST_F(DirectoryTest, AKeySaysWhoseItIs) {
  const NewKey key = Make({.tenant = "red", .role = Role::kViewer});
  const auto identity = Ask(key.secret);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->tenant, "red");
  EXPECT_EQ(identity->role, Role::kViewer);
  EXPECT_EQ(identity->key_id, key.record.id);
  EXPECT_EQ(directory->Find(key.record.id)->tenant, "red");
  EXPECT_EQ(key.record.expires_at_ms, clock.unix_ms + kDefaultKeyDays * 24 * 3600 * 1000);
  EXPECT_EQ(WhyNot("nobody"), Denial::kUnknown);
  EXPECT_EQ(WhyNot(""), Denial::kUnknown);
  EXPECT_EQ(directory->Find("k_nobody1").error(), Denial::kUnknown);
}

TEST_F(DirectoryTest, AKeyOfTheFileIsADevelopers) {
  const auto identity = Ask(kFileKey);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->tenant, "red");
  EXPECT_EQ(identity->role, Role::kDeveloper);
  EXPECT_EQ(directory->Find(identity->key_id)->tenant, "red");
  EXPECT_EQ(identity->key_id.find(kFileKey), std::string::npos);
}

TEST_F(DirectoryTest, TheRoleFitsTheTenant) {
  EXPECT_EQ(directory->Make({.tenant = "", .role = Role::kDeveloper}, "").error().code(),
            Code::kInvalidArgument);
  for (const Role role : {Role::kOperator, Role::kAuditor, Role::kAdmin}) {
    EXPECT_EQ(directory->Make({.tenant = "red", .role = role}, "").error().code(),
              Code::kInvalidArgument);
    EXPECT_TRUE(Ask(Make({.role = role}).secret));
  }
  EXPECT_EQ(directory->Make({.tenant = "green"}, "").error().code(), Code::kNotFound);
  EXPECT_EQ(
      directory->Make({.tenant = "red", .narrowing = {.routes = {"metrics"}}}, "").error().code(),
      Code::kInvalidArgument);
}

TEST_F(DirectoryTest, ARevokedKeyEndsAtOnce) {
  const NewKey key = Make({.tenant = "red"});
  EXPECT_EQ(directory->Revoke("blue", key.record.id).error().code(), Code::kNotFound);
  EXPECT_TRUE(Ask(key.secret));
  ASSERT_TRUE(directory->Revoke("red", key.record.id));
  loop.Run();
  EXPECT_EQ(ended, std::vector<std::string>{key.record.id});
  EXPECT_EQ(WhyNot(key.secret), Denial::kRevoked);
  EXPECT_EQ(directory->Find(key.record.id).error(), Denial::kRevoked);
  ASSERT_TRUE(directory->Revoke("red", key.record.id));
  loop.Run();
  EXPECT_EQ(ended.size(), 1U);
}

TEST_F(DirectoryTest, AKeyEndsWhenItExpires) {
  const NewKey key = Make({.tenant = "red", .lifetime_ms = 5000});
  const NewKey never = Make({.tenant = "red", .lifetime_ms = 0});
  loop.Pass(4'900'000);
  EXPECT_TRUE(ended.empty());
  EXPECT_TRUE(Ask(key.secret));
  loop.Pass(200'000);
  loop.Run();
  EXPECT_EQ(ended, std::vector<std::string>{key.record.id});
  EXPECT_EQ(WhyNot(key.secret), Denial::kExpired);
  loop.Pass(kDayUs / 100);
  loop.Run();
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_TRUE(Ask(never.secret));
}

TEST_F(DirectoryTest, ARotatedKeyWorksForItsGrace) {
  const NewKey old = Make({.tenant = "red",
                           .role = Role::kViewer,
                           .name = "ci",
                           .lifetime_ms = 1000'000,
                           .narrowing = {.images = {"python:*"}}});
  loop.Pass(10'000'000);
  const auto next = directory->Rotate("red", old.record.id, 5000, "root:1000");
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->record.role, Role::kViewer);
  EXPECT_EQ(next->record.name, "ci");
  EXPECT_EQ(next->record.creator, "root:1000");
  EXPECT_EQ(*next->record.narrowing, *old.record.narrowing);
  EXPECT_EQ(next->record.expires_at_ms, clock.unix_ms + 1000'000);
  EXPECT_TRUE(Ask(old.secret));
  EXPECT_TRUE(Ask(next->secret));
  loop.Pass(5'000'000);
  EXPECT_EQ(WhyNot(old.secret), Denial::kExpired);
  loop.Run();
  EXPECT_EQ(ended, std::vector<std::string>{old.record.id});
  const auto at_once = directory->Rotate("red", next->record.id, 0, "root");
  ASSERT_TRUE(at_once);
  EXPECT_EQ(WhyNot(next->secret), Denial::kRevoked);
  loop.Run();
  EXPECT_EQ(ended.size(), 2U);
  EXPECT_EQ(directory->Rotate("red", next->record.id, 0, "root").error().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(directory->Rotate("blue", at_once->record.id, 0, "root").error().code(),
            Code::kNotFound);
}

TEST_F(DirectoryTest, SelfServiceRotatesItsOwnKeysAndNoneForEver) {
  const int64_t most = kDefaultKeyDays * 24 * 3600 * 1000;
  const NewKey admin = Make({.role = Role::kAdmin});
  const NewKey own = Make({.tenant = "red", .lifetime_ms = 0});
  const NewKey mates = Make({.tenant = "red", .lifetime_ms = 0});
  const std::string& me = own.record.id;
  for (const std::string& creator :
       {me, std::string(), std::string("k_nobody1"), Ask(kFileKey)->key_id}) {
    EXPECT_EQ(directory->Rotate("red", mates.record.id, 0, creator).error().code(), Code::kNotFound)
        << creator;
  }
  EXPECT_TRUE(Ask(mates.secret));
  auto made = directory->Make({.tenant = "red", .lifetime_ms = 2 * most}, me);
  ASSERT_TRUE(made);
  auto next = directory->Rotate("red", made->record.id, 0, me);
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->record.expires_at_ms, clock.unix_ms + most);
  next = directory->Rotate("red", me, 0, me);
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->record.expires_at_ms, clock.unix_ms + most);
  next = directory->Rotate("red", mates.record.id, 0, admin.record.id);
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->record.expires_at_ms, 0);
}

TEST_F(DirectoryTest, AGraceDoesNotLengthenALife) {
  const NewKey old = Make({.tenant = "red", .lifetime_ms = 1000});
  ASSERT_TRUE(directory->Rotate("red", old.record.id, 50'000, "root"));
  loop.Pass(1'000'000);
  EXPECT_EQ(WhyNot(old.secret), Denial::kExpired);
}

TEST_F(DirectoryTest, WithItsTenantAllKeysEnd) {
  const NewKey red = Make({.tenant = "red"});
  const NewKey blue = Make({.tenant = "blue"});
  const NewKey host = Make({.role = Role::kAdmin});
  const std::string of_file = Ask(kFileKey)->key_id;
  Take("[[tenants]]\nname = \"blue\"\n");
  loop.Run();
  EXPECT_EQ(ended, (std::vector<std::string>{of_file, red.record.id}));
  EXPECT_EQ(WhyNot(red.secret), Denial::kTenantGone);
  EXPECT_EQ(WhyNot(kFileKey), Denial::kUnknown);
  EXPECT_TRUE(Ask(blue.secret));
  EXPECT_TRUE(Ask(host.secret));
  // A tenant that returns has its keys again.
  Take("[[tenants]]\nname = \"red\"\n");
  EXPECT_TRUE(Ask(red.secret));
}

TEST_F(DirectoryTest, AKeyOfTheFileThatMovesEnds) {
  const std::string id = Ask(kFileKey)->key_id;
  Take(
      "[[tenants]]\nname = \"red\"\n[[tenants]]\nname = \"blue\"\n"
      "api_keys = [\"upstream-style-key\"]\n");
  loop.Run();
  EXPECT_EQ(ended, std::vector<std::string>{id});
  EXPECT_EQ(Ask(kFileKey)->tenant, "blue");
}

TEST_F(DirectoryTest, ATenantAdoptsOnce) {
  int adopted = 0;
  const auto adopt = [&adopted]() -> Status {
    ++adopted;
    return {};
  };
  EXPECT_EQ(directory->Adopt("green", adopt).error().code(), Code::kNotFound);
  const auto fail = []() -> Status { return Fail(Code::kInternal, "no"); };
  EXPECT_FALSE(directory->Adopt("red", fail));
  ASSERT_TRUE(directory->Adopt("red", adopt));
  ASSERT_TRUE(directory->Adopt("red", adopt));
  ASSERT_TRUE(directory->Adopt("blue", adopt));
  EXPECT_EQ(adopted, 1);
}

TEST_F(DirectoryTest, ListsTheKeysOfOneTenant) {
  const NewKey red = Make({.tenant = "red"});
  Make({.tenant = "blue"});
  ASSERT_TRUE(directory->Revoke("red", red.record.id));
  ASSERT_EQ(directory->KeysOf("red").size(), 1U);
  EXPECT_NE(directory->KeysOf("red")[0].revoked_at_ms, 0);
  EXPECT_EQ(directory->CountKeys(), std::pair(size_t{1}, size_t{1}));
}

constexpr char kOidc[] = R"(
[[tenants]]
name = "red"
[[tenants.oidc]]
issuer = "https://idp.example"
audience = "atoll"
jwks = "https://idp.example/jwks"
when = { groups = "team-red" }
role = "developer"
)";

TEST_F(DirectoryTest, ATokenOfARulesIssuerIsAKey) {
  directory = std::make_unique<Directory>(
      Directory::Parts{.loop = loop,
                       .clock = clock,
                       .tenants = tenants,
                       .keys = std::move(*KeyStore::Open(":memory:", loop, clock)),
                       .secret = "secret",
                       .fetch_keys = [](const std::string&) { return KeySetText(); }});
  directory->OnEnd([this](const std::string& id) { ended.push_back(id); });
  Take(kOidc);
  clock.unix_ms = kNow * 1000;
  const auto ask = [this](const std::string& token) {
    Authenticated answer = tl::unexpected(Denial::kUnavailable);
    directory->Authenticate(token, true,
                            [&answer](Authenticated told) { answer = std::move(told); });
    loop.Run();
    return answer;
  };
  const std::string token = Rsa().Sign(UsualClaims());
  EXPECT_TRUE(directory->IsTokenForUs(token));
  const auto identity = ask(token);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->tenant, "red");
  EXPECT_EQ(identity->subject, "alice");
  EXPECT_EQ(directory->Find(identity->key_id)->role, Role::kDeveloper);
  EXPECT_FALSE(ask(Rsa().Sign(With("iss", "https://other.example"))));
  // The rule goes with its tenant.
  Take("[[tenants]]\nname = \"blue\"\n");
  loop.Run();
  EXPECT_EQ(ended, std::vector{identity->key_id});
  EXPECT_FALSE(directory->Find(identity->key_id));
}

}  // namespace
}  // namespace atl::tenants
