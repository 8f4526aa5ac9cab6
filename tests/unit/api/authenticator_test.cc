#include "runtime/api/ingress/authenticator.h"

#include "runtime/api/ingress/auth.h"
#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

// A daemon that asks a provider for keys.
class AuthenticatorTest : public ApiTest {
 protected:
  AuthenticatorTest() {
    auto provider = std::make_unique<tenants::HttpProvider>(
        loop, clock, table,
        tenants::HttpProvider::Settings{
            .endpoint = "http://provider", .max_stale_seconds = 60, .secret = "secret"},
        [this](const std::string& key) -> Result<tenants::HttpProvider::Reply> {
          ++asked;
          if (status == 0) return Fail(Code::kUnavailable, "no route");
          if (!key.starts_with("right")) return tenants::HttpProvider::Reply{401, ""};
          return tenants::HttpProvider::Reply{status, R"({"namespace": "red"})"};
        });
    directory = std::make_unique<tenants::Directory>(tenants::Directory::Parts{
        loop, clock, table, std::move(*tenants::KeyStore::Open(":memory:", loop, clock)),
        std::move(provider), "secret"});
    authenticator = std::make_unique<Authenticator>("secret", directory.get(), nullptr);
  }
  // Returns the status of the refusal; 200: none.
  int Ask(const std::string& key, const std::string& peer = "192.0.2.1:4") {
    const auto exchange = std::make_shared<FakeExchange>();
    exchange->head.method = "GET";
    exchange->head.target = "/sandboxes";
    exchange->head.peer = peer;
    exchange->head.headers.Add(kApiKeyHeader, key);
    static const std::vector<std::string> kNoDirectories;
    int told = 0;
    authenticator->Identify(
        Call(exchange, kNoDirectories),
        [&told](Parsed<tenants::Identity> holder) { told = holder ? 200 : holder.error().status; });
    loop.Run();
    return told;
  }

  tenants::TenantTable table;
  int status = 200;  // the provider's for right keys; 0: it is away
  size_t asked = 0;
  std::unique_ptr<tenants::Directory> directory;
  std::unique_ptr<Authenticator> authenticator;
};

TEST_F(AuthenticatorTest, AStrangerDoesNotKeepAFailingProviderBusy) {
  EXPECT_EQ(Ask("right"), 200);
  status = 0;
  loop.Pass(400'000'000);
  for (int i = 0; i < GuessLimit::kBurst; ++i) {
    EXPECT_EQ(Ask("right of nobody " + std::to_string(i)), 503);
    loop.Pass(6'000'000);
  }
  const size_t before = asked;
  EXPECT_EQ(Ask("right of nobody again"), 429);
  EXPECT_EQ(asked, before);
  // A key that was right before is asked for, from that address too.
  EXPECT_EQ(Ask("right"), 503);
  EXPECT_GT(asked, before);
  EXPECT_EQ(Ask("right of a neighbour", "192.0.2.2:4"), 503);
  status = 200;
  loop.Pass(6'000'000);
  EXPECT_EQ(Ask("right"), 200);
}

TEST_F(AuthenticatorTest, ARightKeyIsKnownBesideAnyNumberOfWrongOnes) {
  EXPECT_EQ(Ask("right"), 200);
  for (int i = 0; i < GuessLimit::kBurst; ++i) {
    EXPECT_EQ(Ask("wrong " + std::to_string(i)), 401);
  }
  EXPECT_EQ(Ask("wrong"), 429);
  loop.Pass(34'000'000);
  EXPECT_EQ(Ask("right"), 200);
}

}  // namespace
}  // namespace atl::api
