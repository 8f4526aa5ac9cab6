#include "runtime/tenants/tenants_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/tenants/quota_text.h"

namespace atl::tenants {
namespace {

// A developer may use every route but "POST /images/prune".
const TenantsOracle kOracle{[](Role role, const std::string& route) -> Result<bool> {
  if (route == "GET /nope") return Fail(Code::kNotFound, "there is no route GET /nope");
  return route == "GET /sandboxes" || (role == Role::kDeveloper && route != "POST /images/prune");
}};

std::string ErrorOf(const std::string& text) {
  const auto file = ParseTenants(text, "t.toml");
  if (!file) return file.error().message();
  const Status tested = RunTests(*file, kOracle);
  return tested ? "" : tested.error().message();
}

TEST(TenantsFile, EveryKey) {
  const auto file = ParseTenants(R"(
[[tenants]]
name = "red"
namespace = "red-ns"
api_keys = ["a-long-enough-secret-key"]
weight = 3
max = { sandboxes = 50, cpu = "1.5", memory = "32Gi", disk = "100Gi", volumes = 20, snapshots = 5, pools = 2, creates_per_second = 0.5, requests_per_second = 500, timeout_seconds = 86400 }
images = ["python:*", "red/*"]
egress_ceiling = ["*.example.org"]
object_stores = ["store"]
host_paths = ["/srv/red"]
policy_locked = true
history = { keep = "30d", max_bytes = "64Mi" }
self_service = true
labels = { cost_center = "4711" }

[[tenants]]
name = "blue"
)",
                                 "t.toml");
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->tenants.size(), 2U);
  const Tenant& red = file->tenants[0];
  EXPECT_EQ(red.name, "red");
  EXPECT_EQ(red.name_space, "red-ns");
  EXPECT_EQ(red.key_hashes,
            std::vector<std::string>{HexEncode(Sha256("a-long-enough-secret-key"))});
  EXPECT_EQ(red.weight, 3U);
  EXPECT_EQ(red.max.sandboxes, 50U);
  EXPECT_EQ(red.max.cpu_millis, 1500U);
  EXPECT_EQ(red.max.memory_bytes, 32ULL << 30);
  EXPECT_EQ(red.max.disk_bytes, 100ULL << 30);
  EXPECT_EQ(red.max.volumes, 20U);
  EXPECT_EQ(red.max.snapshots, 5U);
  EXPECT_EQ(red.max.pools, 2U);
  EXPECT_EQ(red.max.creates_per_second, 0.5);
  EXPECT_EQ(red.max.requests_per_second, 500);
  EXPECT_EQ(red.max.timeout_seconds, 86400U);
  EXPECT_EQ(red.images.size(), 2U);
  EXPECT_EQ(red.egress_ceiling, std::vector<std::string>{"*.example.org"});
  EXPECT_EQ(red.object_stores, std::vector<std::string>{"store"});
  EXPECT_EQ(red.host_paths, std::vector<std::string>{"/srv/red"});
  EXPECT_TRUE(red.policy_locked);
  EXPECT_EQ(red.history.keep_seconds, 30 * 86400);
  EXPECT_EQ(red.history.max_bytes, 64U << 20);
  EXPECT_TRUE(red.self_service);
  EXPECT_EQ(red.labels.at("cost_center"), "4711");
  EXPECT_EQ(file->tenants[1].name_space, "blue");
  EXPECT_FALSE(file->tenants[1].policy_locked);
  EXPECT_EQ(file->tenants[1].history, HistoryLimits());
  // Keys as text are warned of, without the key.
  ASSERT_EQ(file->warnings.size(), 1U);
  EXPECT_EQ(file->warnings[0].find("secret"), std::string::npos);
}

constexpr char kOidcRule[] = R"([[tenants]]
name = "red"
[[tenants.oidc]]
issuer = "https://idp.example"
audience = "atoll"
jwks = "https://idp.example/jwks"
when = { groups = "team-red" }
role = "developer"
)";

TEST(TenantsFile, RulesOfIdentityProviders) {
  const auto file = ParseTenants(kOidcRule, "t.toml");
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->tenants[0].oidc.size(), 1U);
  const OidcRule& rule = file->tenants[0].oidc[0];
  EXPECT_EQ(rule.issuer, "https://idp.example");
  EXPECT_EQ(rule.audience, "atoll");
  EXPECT_EQ(rule.jwks, "https://idp.example/jwks");
  EXPECT_EQ(rule.when, (std::map<std::string, std::string>{{"groups", "team-red"}}));
  EXPECT_EQ(rule.role, Role::kDeveloper);
}

TEST(TenantsFile, ErrorsOfRulesNameLineAndKey) {
  const auto with = [](std::string_view old, std::string_view now) {
    std::string text = kOidcRule;
    return text.replace(text.find(old), old.size(), now);
  };
  const std::string address = "https://idp.example/jwks";
  for (const auto& [text, error] : {
           std::pair<std::string, const char*>{
               with(address, "http://idp.example/jwks"),
               "t.toml line 6: tenants.oidc.jwks must be the address of the issuer's keys"},
           {with(address, "file://etc/keys"), "line 6: tenants.oidc.jwks must be"},
           {with(address, "file:///etc/../keys"), "line 6: tenants.oidc.jwks must be"},
           {with(address, "https://"), "line 6: tenants.oidc.jwks must be"},
           {with("https://idp.example\"", "idp.example\""),
            "line 4: tenants.oidc.issuer must be the URL"},
           {with("\"atoll\"", "\"\""), "line 5: tenants.oidc.audience must not be empty"},
           {with("{ groups = \"team-red\" }", "{}"), "line 7: tenants.oidc.when is empty"},
           {with("\"team-red\"", "7"), "line 7: tenants.oidc.when must be a string"},
           {with("developer", "boss"), "line 8: tenants.oidc.role 'boss': use viewer"},
           {with("audience", "audiences"), "line 5: tenants.oidc.audiences is not known here"},
           {with("when = { groups = \"team-red\" }\n", ""), "line 3: tenants.oidc.when is missing"},
           {with("[[tenants.oidc]]", "[tenants.oidc]"),
            "line 3: tenants.oidc must be [[tenants.oidc]]"},
           {kOidcRule + std::string("[[tenants.oidc]]\nissuer = \"https://idp.example\"\n"
                                    "audience = \"b\"\njwks = \"file:///k\"\n"
                                    "when = { a = \"b\" }\nrole = \"viewer\"\n"),
            "line 1: tenants.oidc.jwks of issuer 'https://idp.example' differs from that of a rule "
            "above"},
       }) {
    EXPECT_NE(ErrorOf(text).find(error), std::string::npos) << ErrorOf(text) << "\nnot " << error;
  }
}

TEST(TenantsFile, ErrorsNameLineAndKey) {
  const std::string red = "[[tenants]]\nname = \"red\"\n";
  for (const auto& [text, error] : {
           std::pair<std::string, const char*>{"[[tenant]]\n", "line 1: tenant is not known here"},
           {red + "imges = []\n", "line 3: tenants.imges is not known here"},
           {red + "max = { memry = \"1Gi\" }\n", "line 3: tenants.max.memry is not known here"},
           {red + "max = { memory = \"lots\" }\n", "line 3: tenants.max.memory 'lots': use bytes"},
           {red + "max = { sandboxes = -1 }\n", "tenants.max.sandboxes '-1': use a whole number"},
           {red + "max = { cpu = true }\n", "tenants.max.cpu must be a number"},
           {red + "weight = 0\n", "line 3: tenants.weight must be a whole number from 1 to 100"},
           {red + "images = [\"UPPER case\"]\n", "line 3: tenants.images 'UPPER case'"},
           {red + "host_paths = [\"/srv/../etc\"]\n",
            "line 3: tenants.host_paths '/srv/../etc': use"},
           {red + "host_paths = [\"/\"]\n", "tenants.host_paths '/': use an absolute path"},
           {red + "host_paths = [\"/srv/\"]\n", "tenants.host_paths '/srv/': use an absolute path"},
           {red + "history = 7\n", "tenants.history must be a table"},
           {red + "history = { keep = \"long\" }\n", "tenants.history.keep 'long': use a duration"},
           {red + "history = { days = 7 }\n", "tenants.history.days is not known here"},
           {red + "policy_locked = 1\n", "tenants.policy_locked must be true or false"},
           {red + "api_keys = [\"\"]\n", "line 3: tenants.api_keys has a key that is blank"},
           {red + "api_keys = [\"a b\"]\n", "tenants.api_keys has a key that is blank"},
           {red + "api_keys = [\"same\", \"same\"]\n", "occurs twice in this file"},
           {red + "api_keys = [\"same\"]\n[[tenants]]\nname = \"blue\"\napi_keys = [\"same\"]\n",
            "line 6: tenants.api_keys has a key that occurs twice"},
           {red + red, "line 3: tenants.name or namespace 'red' occurs twice"},
           {"[[tenants]]\nweight = 1\n", "line 1: tenants.name is missing"},
           {"[[tenants]]\nname = \"Red\"\n", "line 2: tenants.name 'Red': use"},
           {"[[tenants]]\nname = \"-red\"\n", "line 2: tenants.name '-red': use"},
           {"tenants = 3\n", "line 1: tenants must be [[tenants]]"},
           {"[[tenants]\n", "line 1: "},
       }) {
    const std::string told = ErrorOf(text);
    EXPECT_NE(told.find(error), std::string::npos) << text << "\ntells: " << told;
    EXPECT_TRUE(told.starts_with("t.toml line ")) << told;
    EXPECT_EQ(told.find("same\""), std::string::npos) << "no error repeats a key";
  }
}

TEST(TenantsFile, ItsTestsRunBeforeItIsTaken) {
  const std::string file =
      "[[tenants]]\nname = \"red\"\nimages = [\"python:*\"]\n[[tests]]\ntenant = \"red\"\n";
  EXPECT_EQ(ErrorOf(file + "accept = [\"POST /sandboxes\", \"image python:3.11\"]\n"
                           "deny = [\"POST /images/prune\", \"image ubuntu\"]\n"),
            "");
  EXPECT_EQ(
      ErrorOf(file + "role = \"viewer\"\naccept = [\"POST /sandboxes\"]\n"),
      "t.toml line 4: the test of accept 'POST /sandboxes' fails: viewer of red may not do it");
  EXPECT_EQ(
      ErrorOf(file + "deny = [\"image python:3.11\"]\n"),
      "t.toml line 4: the test of deny 'image python:3.11' fails: developer of red may do it");
  EXPECT_NE(ErrorOf(file + "accept = [\"image ubuntu\"]\n").find("may not do it"),
            std::string::npos);
  EXPECT_NE(ErrorOf(file + "deny = [\"GET /nope\"]\n").find("there is no route"),
            std::string::npos);
  EXPECT_NE(ErrorOf("[[tests]]\ntenant = \"green\"\n").find("'green' is not in this file"),
            std::string::npos);
  EXPECT_NE(ErrorOf(file + "refuse = []\n").find("tests.refuse is not known here"),
            std::string::npos);
}

class LoadTenantsTest : public testing::Test {
 protected:
  LoadTenantsTest() {
    char name[] = "/tmp/tenants_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    path = directory + "/tenants.toml";
    std::ofstream(path) << "[[tenants]]\nname = \"red\"\napi_keys = [\"a-long-enough-secret\"]\n";
    ::chmod(path.c_str(), 0640);
  }
  ~LoadTenantsTest() override { std::filesystem::remove_all(directory); }
  std::string directory, path;
};

TEST_F(LoadTenantsTest, OnlyTheOwnerMayWriteIt) {
  EXPECT_TRUE(LoadTenants(path, kOracle));
  ::chmod(path.c_str(), 0660);
  const auto refused = LoadTenants(path, kOracle);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kFailedPrecondition);
}

TEST_F(LoadTenantsTest, WarnsIfEverybodyCanReadItsKeys) {
  EXPECT_EQ(LoadTenants(path, kOracle)->warnings.size(), 1U);
  ::chmod(path.c_str(), 0644);
  EXPECT_EQ(LoadTenants(path, kOracle)->warnings.size(), 2U);
}

TEST_F(LoadTenantsTest, OfNoFileAndOfADirectory) {
  EXPECT_EQ(LoadTenants(directory + "/nope", kOracle).error().code(), Code::kNotFound);
  EXPECT_FALSE(LoadTenants(directory, kOracle));
}

TEST(QuotaText, TextsAreTheInverse) {
  Quota quota;
  for (const auto& [name, text] : {std::pair("sandboxes", "3"),
                                   {"cpu", "0.25"},
                                   {"memory", "512Mi"},
                                   {"creates_per_second", "2.5"}}) {
    ASSERT_TRUE(SetQuota(name, text, &quota));
    EXPECT_EQ(QuotaTexts(quota).at(name), text);
  }
  EXPECT_EQ(QuotaTexts(quota).size(), 4U);
  ASSERT_TRUE(SetQuota("cpu", "500m", &quota));
  EXPECT_EQ(quota.cpu_millis, 500U);
  for (const auto& [name, text] : {std::pair("cpu", "nan"),
                                   {"cpu", "-1"},
                                   {"cpu", ""},
                                   {"sandboxes", "1.5"},
                                   {"sandboxes", ""},
                                   {"nope", "1"},
                                   {"creates_per_second", "inf"}}) {
    EXPECT_FALSE(SetQuota(name, text, &quota)) << name << " " << text;
  }
}

}  // namespace
}  // namespace atl::tenants
