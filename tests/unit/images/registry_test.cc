// Requests to a registry, as far as they are decided without a server.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "images/registry/challenge.h"
#include "images/registry/credentials.h"
#include "images/registry/patience.h"
#include "images/registry/reference.h"
#include "runtime/base/base64.h"
#include "runtime/base/sys.h"

namespace atl::images::registry {
namespace {

std::string Whole(const std::string& name) {
  const Reference reference = ReferenceOf(name);
  return reference.registry + " " + reference.repository + " " + reference.tag;
}

TEST(RegistryReference, IsWhatTheNameMeansToEverybody) {
  EXPECT_EQ(Whole("python:3.11"), "docker.io library/python 3.11");
  EXPECT_EQ(Whole("team/tool:1"), "docker.io team/tool 1");
  EXPECT_EQ(Whole("registry.example/team/tool:1"), "registry.example team/tool 1");
  EXPECT_EQ(Whole("localhost/tool:1"), "localhost tool 1");
  EXPECT_EQ(Whole("host:5000/tool:latest"), "host:5000 tool latest");
}

bool May(const std::string& rule, const std::string& name) {
  const auto checked = CheckPullRule(rule);
  EXPECT_TRUE(checked) << rule;
  return checked && MayPull({*checked}, name);
}

TEST(RegistryRules, NameWhatMayBeFetched) {
  EXPECT_FALSE(MayPull({}, "python:3.11"));
  EXPECT_TRUE(May("python", "python:3.11"));
  EXPECT_TRUE(May("docker.io/library/python:3*", "python:3.11"));
  EXPECT_TRUE(May("*", "team/tool:1"));
  EXPECT_TRUE(May("registry.example/*", "registry.example/a/b:1"));
  EXPECT_FALSE(May("registry.example/team/*", "registry.example/other/b:1"));
  EXPECT_TRUE(May("registry.example/tool", "registry.example/tool:7"));
}

// A client names a server of its own, or one in the operator's network.
TEST(RegistryRules, LeadToNoOtherRegistry) {
  EXPECT_FALSE(May("*", "registry.example/tool:1"));
  EXPECT_FALSE(May("*", "localhost/tool:1"));
  EXPECT_FALSE(May("python*", "python.evil.example/tool:1"));
  EXPECT_FALSE(May("python:3*", "python:3000/tool:1"));
  EXPECT_FALSE(May("registry.example/*", "registry.example:81/tool:1"));
  EXPECT_FALSE(May("team/*", "team:80/tool:1"));
  for (const std::string& bad :
       std::vector<std::string>{"*.example/*", "registry.*/tool", "host:*/tool",
                                "python@sha256:" + std::string(64, '1'), ""}) {
    EXPECT_FALSE(CheckPullRule(bad)) << bad;
  }
}

TEST(RegistryChallenge, SaysWhoGivesTokens) {
  const auto bearer = ParseChallenge(
      R"(Bearer realm="https://auth.example/token?a=b", service="the \"s\"" , scope=x,error=y)");
  ASSERT_TRUE(bearer);
  EXPECT_TRUE(bearer->bearer);
  EXPECT_EQ(bearer->service, "the \"s\"");
  EXPECT_EQ(TokenUrl(*bearer, "team/tool").value(),
            "https://auth.example/token?a=b&service=the%20%22s%22&scope="
            "repository%3Ateam%2Ftool%3Apull");
  EXPECT_FALSE(ParseChallenge("basic realm=\"x\"").value().bearer);
  for (const std::string& bad : std::vector<std::string>{
           "", "Negotiate", "Bearer", "Bearer realm", "Bearer realm=", "Bearer realm=\"x",
           "Bearer realm=\"x\\", "Bearer service=\"s\"", "Bearer realm=\"x\" service=\"s\""}) {
    EXPECT_FALSE(ParseChallenge(bad)) << bad;
  }
  EXPECT_FALSE(ParseChallenge("Bearer realm=\"" + std::string(10000, 'x') + "\""));
  EXPECT_FALSE(TokenUrl({true, "http://auth.example/", ""}, "x"));
}

TEST(RegistryUrl, IsOneOfHttps) {
  const auto parts = [](const std::string& url) {
    const auto parsed = ParseSecureUrl(url);
    return parsed ? parsed->origin + " " + parsed->target : "";
  };
  EXPECT_EQ(parts("https://a.example/b?c=d#e"), "https://a.example /b?c=d");
  EXPECT_EQ(parts("https://a.example:81"), "https://a.example:81 /");
  EXPECT_EQ(parts("https://[::1]:5?x"), "https://[::1]:5 /?x");
  for (const std::string& bad : std::vector<std::string>{
           "", "http://a/", "https://", "https:///x", "https://u@a/", "https://a/ b", "ftp://a/",
           "https://a/\r\nX: y", "https://a:0/", "//a/b"}) {
    EXPECT_EQ(parts(bad), "") << bad;
  }
}

class RegistryCredentials : public testing::Test {
 protected:
  RegistryCredentials() {
    char name[] = "/tmp/credentials_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
  }
  ~RegistryCredentials() override { std::filesystem::remove_all(directory); }

  Result<Credentials> Read(const std::string& text, const std::string& registry,
                           mode_t mode = 0600) {
    const UniqueFd place = *sys::Open(directory, O_RDONLY | O_DIRECTORY);
    EXPECT_TRUE(sys::ReplaceFileAt(place.get(), "auth.json", text, mode));
    return ReadCredentials(directory + "/auth.json", registry);
  }
  static std::string Entry(const std::string& host, const std::string& text) {
    return R"({"auths": {")" + host + R"(": {"auth": ")" + EncodeBase64(text) + R"("}}})";
  }

  std::string directory;
};

TEST_F(RegistryCredentials, AreOfOneRegistry) {
  const auto found = Read(Entry("a.example:5", "me:pass:word"), "a.example:5");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->username, "me");
  EXPECT_EQ(found->password, "pass:word");
  EXPECT_TRUE(Read(Entry("a.example", "me:pass"), "b.example").value().empty());
  EXPECT_EQ(Read(Entry("https://index.docker.io/v1/", "me:x"), "docker.io").value().username, "me");
}

TEST_F(RegistryCredentials, AreNobodyElsesAndInNoError) {
  EXPECT_TRUE(Read(Entry("a", "me:pass"), "a", 0640));
  for (const mode_t mode : {0604, 0660, 0602}) {
    EXPECT_EQ(Read(Entry("a", "me:pass"), "a", mode).error().code(), Code::kFailedPrecondition);
  }
  for (const std::string& bad : std::vector<std::string>{
           "", "secret", R"({"auths": "secret"})", R"({"secret": 1})",
           R"({"auths": {"a": "secret"}})", R"({"auths": {"a": {"auth": "c2VjcmV0"}}})",
           R"({"auths": {"a": {}}})", R"({"auths": {"a": {"auth": "secret:"}}})"}) {
    const auto refused = Read(bad, "a");
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().message().find("secret"), std::string::npos)
        << refused.error().message();
  }
  EXPECT_EQ(ReadCredentials(directory + "/none", "a").error().code(), Code::kNotFound);
}

TEST(RegistryPatience, EndsAtItsEndWhateverComes) {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  Patience patience(std::move(timer), 1);
  EXPECT_FALSE(patience.Renew());
  pollfd over{patience.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&over, 1, 10'000), 1);
  EXPECT_NE(patience.reason().find("longer than 3600 s"), std::string::npos);

  const auto fresh = Patience::Start().value();
  EXPECT_TRUE(fresh->Renew());
  itimerspec left{};
  EXPECT_EQ(::timerfd_gettime(fresh->fd(), &left), 0);
  EXPECT_GE(left.it_value.tv_sec, Patience::kStallSeconds - 5);
  EXPECT_LE(left.it_value.tv_sec, Patience::kStallSeconds);
}

}  // namespace
}  // namespace atl::images::registry
