#include "runtime/tenants/http_provider.h"

#include <gtest/gtest.h>

#include "tests/unit/sandbox/fakes.h"

namespace atl::tenants {
namespace {

constexpr int64_t kSecond = 1'000'000;

class HttpProviderTest : public testing::Test {
 protected:
  HttpProviderTest() {
    provider = std::make_unique<HttpProvider>(
        loop, clock, tenants,
        HttpProvider::Settings{.endpoint = "http://provider", .secret = "secret"},
        [this](const std::string& key) -> Result<HttpProvider::Reply> {
          asked.push_back(key);
          if (down) return Fail(Code::kUnavailable, "no route");
          return reply;
        });
    provider->OnEnd([this](const std::string& id) { ended.push_back(id); });
  }
  std::string Ask(const std::string& key) {
    std::string told = "nothing";
    provider->Authenticate(key, true, [&told](const Authenticated& answer) {
      told = answer                                   ? answer->tenant
             : answer.error() == Denial::kUnavailable ? "unavailable"
                                                      : "refused";
      EXPECT_TRUE(!answer || answer->role == Role::kDeveloper);
    });
    loop.Run();
    return told;
  }
  std::string IdOf(const std::string& key) {
    std::string id;
    provider->Authenticate(key, true, [&id](const Authenticated& answer) { id = answer->key_id; });
    loop.Run();
    return id;
  }

  sandbox::FakeClock clock;
  sandbox::FakeLoop loop{clock};
  TenantTable tenants;
  HttpProvider::Reply reply{200, R"({"namespace": "red", "ttl": 30})"};
  bool down = false;
  std::vector<std::string> asked, ended;
  std::unique_ptr<HttpProvider> provider;
};

TEST_F(HttpProviderTest, AnAnswerCountsForItsTime) {
  EXPECT_EQ(Ask("key"), "red");
  EXPECT_EQ(Ask("key"), "red");
  EXPECT_EQ(asked, std::vector<std::string>{"key"});
  EXPECT_NE(tenants.Find("red"), nullptr);
  EXPECT_EQ(provider->Find(IdOf("key"))->tenant, "red");
}

TEST_F(HttpProviderTest, ARefusedKeyIsNotAskedForAgainAtOnce) {
  reply = {401, ""};
  EXPECT_EQ(Ask("key"), "refused");
  EXPECT_EQ(Ask("key"), "refused");
  EXPECT_EQ(asked.size(), 1U);
  reply = {200, R"({"namespace": "red"})"};
  loop.Pass(11 * kSecond);
  EXPECT_EQ(Ask("key"), "red");
}

TEST_F(HttpProviderTest, AKeyThatDiesEndsWithoutBeingUsed) {
  const std::string id = IdOf("key");
  reply = {401, ""};
  loop.Pass(36 * kSecond);
  EXPECT_EQ(ended, std::vector<std::string>{id});
  EXPECT_FALSE(provider->Find(id));
}

TEST_F(HttpProviderTest, AKeyThatMovesEnds) {
  const std::string id = IdOf("key");
  reply.body = R"({"namespace": "blue"})";
  loop.Pass(36 * kSecond);
  EXPECT_EQ(ended, std::vector<std::string>{id});
  EXPECT_EQ(Ask("key"), "blue");
}

TEST_F(HttpProviderTest, AnOldAnswerCountsWhileTheProviderIsAway) {
  const std::string id = IdOf("key");
  down = true;
  loop.Pass(200 * kSecond);
  EXPECT_EQ(Ask("key"), "red");
  EXPECT_EQ(Ask("other"), "unavailable");
  EXPECT_TRUE(ended.empty());
  loop.Pass(106 * kSecond);
  EXPECT_EQ(ended, std::vector<std::string>{id});
  EXPECT_EQ(Ask("key"), "unavailable");
  down = false;
  loop.Pass(6 * kSecond);
  EXPECT_EQ(Ask("key"), "red");
  EXPECT_FALSE(provider->is_away());
}

TEST_F(HttpProviderTest, AFailingProviderIsNotAskedForEachRequest) {
  down = true;
  EXPECT_FALSE(provider->is_away());
  EXPECT_EQ(Ask("a"), "unavailable");
  EXPECT_TRUE(provider->is_away());
  EXPECT_EQ(Ask("b"), "unavailable");
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(HttpProviderTest, WhoeverGuessesMayNotAsk) {
  std::string told;
  const auto done = [&told](const Authenticated& answer) { told = answer ? answer->tenant : "no"; };
  provider->Authenticate("key", false, done);
  EXPECT_EQ(told, "no");
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(Ask("key"), "red");
  provider->Authenticate("key", false, done);
  EXPECT_EQ(told, "red");
}

TEST_F(HttpProviderTest, AnAnswerThatMakesNoSenseIsAnErrorOfTheProvider) {
  for (const char* body : {"", "[]", "{}", R"({"namespace": 3})", R"({"namespace": ""})",
                           R"({"namespace": "../red"})", R"({"namespace": "red", "ttl": "x"})"}) {
    reply.body = body;
    EXPECT_EQ(Ask(std::string("key of ") + body), "unavailable") << body;
    loop.Pass(6 * kSecond);
  }
  for (const int status : {204, 302, 408, 429, 500, 503}) {
    reply = {status, R"({"namespace": "red"})"};
    EXPECT_EQ(Ask("key " + std::to_string(status)), "unavailable") << status;
    loop.Pass(6 * kSecond);
  }
}

TEST_F(HttpProviderTest, AnOddKeyStopsNobodyElse) {
  for (const int status : {400, 403, 404, 431, 408, 429, 204}) {
    reply = {status, ""};
    const std::string odd = "odd " + std::to_string(status);
    const bool refused = status >= 400 && status != 408 && status != 429;
    EXPECT_EQ(Ask(odd), refused ? "refused" : "unavailable") << status;
    const size_t before = asked.size();
    Ask(odd);
    EXPECT_EQ(asked.size() - before, refused ? 0U : 1U) << status;
    reply = {200, R"({"namespace": "red"})"};
    EXPECT_EQ(Ask("good " + std::to_string(status)), "red") << status;
  }
  reply = {500, ""};
  EXPECT_EQ(Ask("a"), "unavailable");
  reply = {200, R"({"namespace": "red"})"};
  EXPECT_EQ(Ask("b"), "unavailable");
}

TEST_F(HttpProviderTest, ALongOrUnprintableKeyIsUnknownWithoutAQuestion) {
  for (const std::string& key :
       {std::string(), std::string(513, 'k'), std::string("a\nb"), std::string("\x7f"),
        std::string("\xc3\xa9"), std::string("a\0b", 3)}) {
    EXPECT_EQ(Ask(key), "refused");
  }
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(Ask(std::string(512, 'k')), "red");
}

TEST_F(HttpProviderTest, ARightKeyIsRememberedUntilItIsRefused) {
  EXPECT_FALSE(provider->HasVouchedFor("key"));
  EXPECT_EQ(Ask("key"), "red");
  EXPECT_TRUE(provider->HasVouchedFor("key"));
  down = true;
  loop.Pass(400 * kSecond);
  EXPECT_EQ(Ask("key"), "unavailable");
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_TRUE(provider->HasVouchedFor("key"));
  EXPECT_EQ(Ask("other"), "unavailable");
  EXPECT_FALSE(provider->HasVouchedFor("other"));
  down = false;
  reply = {401, ""};
  loop.Pass(6 * kSecond);
  EXPECT_EQ(Ask("key"), "refused");
  EXPECT_FALSE(provider->HasVouchedFor("key"));
}

TEST_F(HttpProviderTest, OneQuestionAnswersAllWhoWait) {
  int answers = 0;
  for (int i = 0; i < 3; ++i) {
    provider->Authenticate("key", true,
                           [&answers](const Authenticated& told) { answers += told ? 1 : 0; });
  }
  loop.Run();
  EXPECT_EQ(answers, 3);
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(HttpProviderTest, TheWaitIsBounded) {
  int refused = 0;
  for (size_t i = 0; i < HttpProvider::kMostWaiting + 10; ++i) {
    provider->Authenticate("key " + std::to_string(i), true, [&refused](const Authenticated& told) {
      refused += !told && told.error() == Denial::kUnavailable ? 1 : 0;
    });
  }
  EXPECT_EQ(refused, 10);
}

TEST_F(HttpProviderTest, TheNumberOfKnownKeysIsBounded) {
  const std::string first = IdOf("key");
  for (size_t i = 0; i < HttpProvider::kMostKnown; ++i) {
    clock.Advance(1);
    Ask("key " + std::to_string(i));
  }
  EXPECT_EQ(ended, std::vector<std::string>{first});
}

}  // namespace
}  // namespace atl::tenants
