// The API of a daemon with tenants: each route by each role, on the objects of the caller's tenant
// and of another.
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

using tenants::Role;

constexpr char kUnknownId[] = "00000000-0000-4000-8000-000000000000";

class TenantsApiTest : public ApiTest {
 protected:
  TenantsApiTest() {
    keys_of_tenants = std::make_unique<tenants::Directory>(tenants::Directory::Parts{
        loop, clock, tenants, std::move(*tenants::KeyStore::Open(":memory:", loop, clock)), nullptr,
        "secret"});
    keys_of_tenants->Replace(*tenants::ParseTenants(
        "[[tenants]]\nname = \"red\"\nself_service = true\n[[tenants]]\nname = \"blue\"\n", "t"));
    Serve({.endpoint = {.address = "127.0.0.1:8080"}});
    for (const Role role : tenants::kRoles) {
      const bool of_host = role != Role::kViewer && role != Role::kDeveloper;
      keys[role] = Make({.tenant = of_host ? "" : "red", .role = role});
    }
    blue = Make({.tenant = "blue"});
  }
  std::string Make(const tenants::KeyRequest& wanted) {
    auto made = keys_of_tenants->Make(wanted, "");
    EXPECT_TRUE(made) << made.error().message();
    return made->secret;
  }
  std::shared_ptr<FakeExchange> By(const std::string& key, const std::string& method,
                                   const std::string& target, const std::string& body = "") {
    return Send(method, target, body, {{kKeyHeader, key}});
  }
  int StatusBy(const std::string& key, const std::string& method, const std::string& target,
               const std::string& body = "") {
    const auto exchange = By(key, method, target, body);
    return exchange->response ? exchange->response->status : 0;
  }
  std::string CreateBy(const std::string& key) {
    const json body = {{"image", {{"uri", "busybox"}}},
                       {"entrypoint", {"sleep"}},
                       {"resourceLimits", json::object()}};
    const auto exchange = By(key, "POST", "/v1/sandboxes", body.dump());
    spawner.AnswerBuild();
    EXPECT_TRUE(exchange->response && exchange->response->status == 202);
    return json::parse(exchange->response->body).at("id");
  }
  // Returns a target of the route about that sandbox.
  static std::string TargetOf(const Rights& row, const std::string& sandbox) {
    std::string path(row.pattern);
    path = std::regex_replace(path, std::regex("\\{sandbox_id\\}"), sandbox);
    path = std::regex_replace(path, std::regex("\\{tenant\\}"), "red");
    path = std::regex_replace(path, std::regex("\\{port\\}"), "80");
    path = std::regex_replace(path, std::regex("\\{[a-z_:]+\\}"), "none");
    if (!row.parameter.empty()) path.append("?").append(row.parameter).append("=oci");
    return path;
  }

  std::map<Role, std::string> keys;
  std::string blue;
};

TEST_F(TenantsApiTest, EachRouteByEachRole) {
  std::string id = kUnknownId;
  for (const Rights& row : AllRights()) {
    if (row.service != Service::kApi) continue;
    for (const std::string prefix : {"", "/v1"}) {
      if (StatusBy(keys[Role::kDeveloper], "GET", "/sandboxes/" + id) != 200) {
        id = CreateBy(keys[Role::kDeveloper]);
      }
      const std::string target = prefix + TargetOf(row, id);
      const std::string method(row.method);
      for (const Role role : tenants::kRoles) {
        const auto exchange = By(keys[role], method, target);
        const std::string what = method + " " + target + " by " + tenants::RoleName(role);
        const int status = exchange->response ? exchange->response->status : 0;
        if (!row.open && row.Of(role) == Reach::kNone) {
          ASSERT_EQ(status, 403) << what;
          const json body = json::parse(exchange->response->body);
          EXPECT_EQ(body.at("code"), "FORBIDDEN") << what;
          const auto needed = tenants::ParseRole(body.at("needs").get<std::string>());
          ASSERT_TRUE(needed);
          EXPECT_NE(row.Of(*needed), Reach::kNone) << what;
        } else {
          EXPECT_NE(status, 403) << what;
          EXPECT_NE(status, 401) << what;
        }
      }
      const auto without = Send(method, target, "", {});
      EXPECT_EQ(without->response->status == 401, !row.open) << method << " " << target;
    }
  }
}

TEST_F(TenantsApiTest, TheSandboxOfAnotherTenantIsAsAnUnknownOne) {
  const std::string foreign = CreateBy(keys[Role::kDeveloper]);
  const std::string viewer = Make({.tenant = "blue", .role = Role::kViewer});
  for (const Rights& row : AllRights()) {
    if (row.service != Service::kApi || row.pattern.find("{sandbox_id}") == std::string::npos) {
      continue;
    }
    for (const std::string& key : {blue, viewer}) {
      const auto ask = [&](const std::string& id) {
        const auto exchange = By(key, std::string(row.method), TargetOf(row, id), "{}");
        EXPECT_TRUE(exchange->response) << RouteName(row);
        std::string told = std::to_string(exchange->response->status) + exchange->response->body;
        return std::regex_replace(told, std::regex(id), "ID");
      };
      EXPECT_EQ(ask(foreign), ask(kUnknownId)) << RouteName(row);
    }
  }
  EXPECT_EQ(StatusBy(keys[Role::kDeveloper], "GET", "/v1/sandboxes/" + foreign), 200);
}

TEST_F(TenantsApiTest, ListsShowWhatTheRoleReaches) {
  const std::string red = CreateBy(keys[Role::kDeveloper]);
  CreateBy(blue);
  const auto count = [this](const std::string& key) {
    const auto exchange = By(key, "GET", "/v1/sandboxes");
    return json::parse(exchange->response->body).at("items").size();
  };
  EXPECT_EQ(count(keys[Role::kViewer]), 1U);
  EXPECT_EQ(count(blue), 1U);
  EXPECT_EQ(count(keys[Role::kOperator]), 2U);
  EXPECT_EQ(count(keys[Role::kAuditor]), 2U);
  EXPECT_EQ(count(keys[Role::kAdmin]), 2U);
  // The answer waits for the spawner.
  EXPECT_EQ(StatusBy(keys[Role::kOperator], "POST", "/v1/sandboxes/" + red + "/pause"), 0);
  EXPECT_EQ(StatusBy(blue, "POST", "/v1/sandboxes/" + red + "/pause"), 404);
}

TEST_F(TenantsApiTest, NoTenantIsInTheWayOfAnotherReaderOfTheAuditLog) {
  ASSERT_TRUE(std::filesystem::create_directory(directory + "/audit"));
  auto log = audit::AuditLog::Open(loop, clock, health, {.directory = directory + "/audit"});
  ASSERT_TRUE(log);
  auditor = std::make_shared<Auditor>(**log, clock, *audit::Levels::Parse({}), "secret");
  Serve({.endpoint = {.address = "127.0.0.1:8080"}});
  // The answers come when the loop runs.
  const auto ask = [this](const std::string& key) {
    auto exchange = std::make_shared<FakeExchange>();
    exchange->head.method = "GET";
    exchange->head.target = "/v1/audit";
    exchange->head.headers.list = {{kKeyHeader, key}, {"Host", "atoll.example:81"}};
    exchange->head.peer = "127.0.0.1:4";
    api->Handle(exchange);
    return exchange;
  };
  const auto red = ask(keys[Role::kDeveloper]);
  const auto red_again = ask(keys[Role::kDeveloper]);
  const auto other = ask(blue);
  const auto host = ask(keys[Role::kAuditor]);
  const auto host_again = ask(keys[Role::kAdmin]);
  loop.Run();
  const auto status = [](const auto& exchange) {
    return exchange->response ? exchange->response->status : 0;
  };
  EXPECT_EQ(status(red), 200);
  EXPECT_EQ(status(red_again), 429);
  EXPECT_EQ(status(other), 200);
  EXPECT_EQ(status(host), 200);
  EXPECT_EQ(status(host_again), 429);
  EXPECT_EQ(StatusBy(keys[Role::kDeveloper], "GET", "/v1/audit"), 200);
  EXPECT_EQ(StatusBy(keys[Role::kDeveloper], "GET", "/v1/audit/head"), 403);
  EXPECT_EQ(StatusBy(keys[Role::kAuditor], "GET", "/v1/audit/head"), 200);
  api.reset();
  auditor.reset();
}

TEST_F(TenantsApiTest, AnAuditorReadsNamesAndStatesOnly) {
  const json body = {{"image", {{"uri", "busybox"}}},
                     {"entrypoint", {"sleep", "98765"}},
                     {"resourceLimits", json::object()},
                     {"env", {{"TOKEN", "of-red"}}},
                     {"metadata", {{"name", "web"}, {"customer", "whose-name"}}}};
  By(keys[Role::kDeveloper], "POST", "/v1/sandboxes", body.dump());
  spawner.AnswerBuild();
  const auto text = [this](Role role, const char* target) {
    return By(keys[role], "GET", target)->response->body;
  };
  EXPECT_NE(text(Role::kViewer, "/v1/sandboxes").find("whose-name"), std::string::npos);
  const std::string audited = text(Role::kAuditor, "/v1/sandboxes");
  EXPECT_NE(audited.find("\"web\""), std::string::npos) << audited;
  EXPECT_NE(audited.find("Running"), std::string::npos) << audited;
  for (const char* content : {"whose-name", "98765", "of-red"}) {
    EXPECT_EQ(audited.find(content), std::string::npos) << audited;
  }
  EXPECT_NE(text(Role::kOperator, "/v1/images/busybox").find("\"env\""), std::string::npos);
  EXPECT_EQ(text(Role::kAuditor, "/v1/images/busybox").find("\"env\""), std::string::npos);
}

TEST_F(TenantsApiTest, AllRefusedKeysGetOneAnswer) {
  const auto body = [this](const std::string& key) {
    const auto exchange = By(key, "GET", "/v1/sandboxes");
    EXPECT_EQ(exchange->response->status, 401);
    return exchange->response->body;
  };
  const auto revoked = *keys_of_tenants->Make({.tenant = "red"}, "");
  ASSERT_TRUE(keys_of_tenants->Revoke("red", revoked.record.id));
  const auto expired = *keys_of_tenants->Make({.tenant = "red", .lifetime_ms = 1}, "");
  clock.Advance(2000);
  const std::string unknown = body("no such key at all");
  EXPECT_EQ(json::parse(unknown).at("code"), "INVALID_API_KEY");
  EXPECT_EQ(body(revoked.secret), unknown);
  EXPECT_EQ(body(expired.secret), unknown);
  keys_of_tenants->Replace(*tenants::ParseTenants("[[tenants]]\nname = \"red\"\n", "t"));
  EXPECT_EQ(body(blue), unknown);
  EXPECT_EQ(CodeOf(Send("GET", "/v1/sandboxes", "", {})), "MISSING_API_KEY");
}

TEST_F(TenantsApiTest, AKeyMayComeAsABearerAndTwoKeysMustBeOne) {
  const std::string& key = keys[Role::kViewer];
  const auto status = [this](std::vector<http::Header> headers) {
    return Send("GET", "/v1/sandboxes", "", std::move(headers))->response->status;
  };
  EXPECT_EQ(status({{"Authorization", "Bearer " + key}}), 200);
  EXPECT_EQ(status({{"Authorization", "Bearer " + key}, {kKeyHeader, key}}), 200);
  EXPECT_EQ(status({{"Authorization", "Bearer " + key}, {kKeyHeader, blue}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer " + blue}, {kKeyHeader, key}}), 401);
}

TEST_F(TenantsApiTest, GuessesAreLimitedAndARightKeyIsNot) {
  int refused = 0;
  for (int i = 0; i < 30; ++i) {
    const int status = StatusBy("guess number " + std::to_string(i), "GET", "/v1/sandboxes");
    refused += status == 429 ? 1 : 0;
    EXPECT_EQ(status, i < GuessLimit::kBurst ? 401 : 429) << i;
  }
  EXPECT_EQ(refused, 30 - GuessLimit::kBurst);
  EXPECT_EQ(StatusBy(keys[Role::kViewer], "GET", "/v1/sandboxes"), 200);
}

TEST_F(TenantsApiTest, WhoAmI) {
  const json viewer = json::parse(By(keys[Role::kViewer], "GET", "/whoami")->response->body);
  EXPECT_EQ(viewer.at("role"), "viewer");
  EXPECT_EQ(viewer.at("tenant"), "red");
  EXPECT_TRUE(viewer.at("key").get<std::string>().starts_with("k_"));
  const json admin = json::parse(By(keys[Role::kAdmin], "GET", "/whoami")->response->body);
  EXPECT_EQ(admin.at("role"), "admin");
  EXPECT_FALSE(admin.contains("tenant"));
}

TEST_F(TenantsApiTest, ATenantSeesItself) {
  const auto names = [this](const std::string& key) {
    std::string all;
    const auto exchange = By(key, "GET", "/v1/tenants");
    const json list = json::parse(exchange->response->body);
    for (const json& one : list.at("items")) {
      all.append(one.at("name").get<std::string>()).append(" ");
    }
    return all;
  };
  EXPECT_EQ(names(blue), "blue ");
  EXPECT_EQ(names(keys[Role::kOperator]), "blue red ");
  EXPECT_EQ(StatusBy(blue, "GET", "/v1/tenants/blue"), 200);
  const auto foreign = By(blue, "GET", "/v1/tenants/red");
  EXPECT_EQ(foreign->response->status, 404);
  EXPECT_EQ(CodeOf(foreign), "TENANT::NOT_FOUND");
  EXPECT_EQ(StatusBy(blue, "GET", "/v1/tenants/red/keys"), 404);
  EXPECT_EQ(StatusBy(keys[Role::kAdmin], "GET", "/v1/tenants/green"), 404);
}

TEST_F(TenantsApiTest, KeysAreMadeListedRotatedAndRevoked) {
  const std::string& admin = keys[Role::kAdmin];
  const auto made = By(admin, "POST", "/v1/tenants/blue/keys",
                       R"({"role": "viewer", "name": "ci", "expiresInSeconds": 60,
                           "routes": ["GET /sandboxes"], "max": {"memory": "1Gi"}})");
  ASSERT_EQ(made->response->status, 201) << made->response->body;
  const json key = json::parse(made->response->body);
  const std::string secret = key.at("key"), id = key.at("id");
  EXPECT_EQ(made->response->headers.Get("Cache-Control"), "no-store");
  EXPECT_EQ(StatusBy(secret, "GET", "/v1/sandboxes"), 200);
  EXPECT_EQ(StatusBy(secret, "GET", "/v1/volumes"), 403);
  const std::string list = By(admin, "GET", "/v1/tenants/blue/keys")->response->body;
  EXPECT_NE(list.find(id), std::string::npos);
  EXPECT_EQ(list.find(secret.substr(14)), std::string::npos);
  const auto rotated =
      By(admin, "POST", "/v1/tenants/blue/keys/" + id + "/rotate", R"({"grace": "30s"})");
  ASSERT_EQ(rotated->response->status, 201) << rotated->response->body;
  const json next = json::parse(rotated->response->body);
  EXPECT_EQ(next.at("max").at("memory"), "1Gi");
  EXPECT_EQ(StatusBy(secret, "GET", "/v1/sandboxes"), 200);
  EXPECT_EQ(StatusBy(admin, "DELETE", "/v1/tenants/red/keys/" + id), 404);
  EXPECT_EQ(StatusBy(admin, "DELETE", "/v1/keys/" + id), 404);
  EXPECT_EQ(StatusBy(admin, "DELETE", "/v1/tenants/blue/keys/" + id), 204);
  EXPECT_EQ(StatusBy(secret, "GET", "/v1/sandboxes"), 401);
  EXPECT_EQ(StatusBy(next.at("key"), "GET", "/v1/sandboxes"), 200);
}

TEST_F(TenantsApiTest, RequestsForKeysAreChecked) {
  const std::string& admin = keys[Role::kAdmin];
  const auto status = [&](const char* path, const char* body) {
    return StatusBy(admin, "POST", path, body);
  };
  for (const char* body :
       {"", "[]", R"({"role": "root"})", R"({"expiresInSeconds": -1})", R"({"routes": ["x"]})",
        R"({"images": ["UPPER case"]})", R"({"max": {"memry": "1Gi"}})",
        R"({"max": {"memory": "x"}})", R"({"name": "a\u0001"})"}) {
    EXPECT_EQ(status("/v1/tenants/blue/keys", body), 422) << body;
  }
  EXPECT_EQ(status("/v1/tenants/blue/keys", R"({"role": "admin"})"), 400);
  EXPECT_EQ(status("/v1/keys", "{}"), 422);
  EXPECT_EQ(status("/v1/keys", R"({"role": "developer"})"), 400);
  EXPECT_EQ(status("/v1/keys", R"({"role": "operator"})"), 201);
  // Nothing would enforce these for the host.
  EXPECT_EQ(status("/v1/keys", R"({"role": "admin", "images": ["busybox"]})"), 400);
  EXPECT_EQ(status("/v1/keys", R"({"role": "operator", "max": {"memory": "1Gi"}})"), 400);
  EXPECT_EQ(status("/v1/keys", R"({"role": "auditor", "routes": ["GET /metrics"]})"), 201);
  EXPECT_EQ(status("/v1/tenants/green/keys", "{}"), 404);
}

TEST_F(TenantsApiTest, SelfServiceGivesNoMoreThanOnesOwn) {
  const std::string& red = keys[Role::kDeveloper];
  EXPECT_EQ(StatusBy(red, "POST", "/v1/tenants/red/keys", "{}"), 201);
  EXPECT_EQ(StatusBy(red, "POST", "/v1/tenants/red/keys", R"({"role": "admin"})"), 400);
  EXPECT_EQ(StatusBy(red, "POST", "/v1/tenants/blue/keys", "{}"), 404);
  EXPECT_EQ(StatusBy(blue, "POST", "/v1/tenants/blue/keys", "{}"), 403);
  EXPECT_EQ(StatusBy(blue, "GET", "/v1/tenants/blue/keys"), 200);
  const auto forever = By(red, "POST", "/v1/tenants/red/keys", R"({"expiresInSeconds": 0})");
  EXPECT_TRUE(json::parse(forever->response->body).contains("expiresAt"));
  // A narrowed key cannot make one that is not.
  const std::string narrow = Make({.tenant = "red", .narrowing = {.images = {"busybox:latest"}}});
  EXPECT_EQ(StatusBy(narrow, "POST", "/v1/tenants/red/keys", "{}"), 403);
}

TEST_F(TenantsApiTest, AFileIsCheckedWithoutBeingTaken) {
  const std::string& admin = keys[Role::kAdmin];
  const auto good = By(admin, "POST", "/v1/tenants/check",
                       "[[tenants]]\nname = \"green\"\n[[tests]]\ntenant = \"green\"\n"
                       "accept = [\"POST /sandboxes\"]\ndeny = [\"POST /images/prune\"]\n");
  EXPECT_EQ(good->response->status, 200) << good->response->body;
  EXPECT_EQ(json::parse(good->response->body).at("tests"), 2);
  EXPECT_EQ(tenants.Find("green"), nullptr);
  const auto bad = By(admin, "POST", "/v1/tenants/check",
                      "[[tenants]]\nname = \"green\"\n[[tests]]\ntenant = \"green\"\n"
                      "accept = [\"POST /images/prune\"]\n");
  EXPECT_EQ(bad->response->status, 400);
  EXPECT_NE(bad->response->body.find("developer of green may not do it"), std::string::npos);
}

TEST_F(TenantsApiTest, OnlyTheHolderOfAKeyHearsOfTroubles) {
  health.Set("disk", "the store is full");
  const auto told = [this](std::vector<http::Header> headers) {
    const auto exchange = Send("GET", "/health", "", std::move(headers));
    EXPECT_EQ(exchange->response->status, 200);
    return exchange->response->body.find("the store is full") != std::string::npos;
  };
  EXPECT_FALSE(told({}));
  EXPECT_FALSE(told({{kKeyHeader, "a wrong key"}}));
  EXPECT_TRUE(told({{kKeyHeader, keys[Role::kOperator]}}));
}

TEST_F(TenantsApiTest, RootsConnectionNeedsNoKey) {
  auto exchange = std::make_shared<FakeExchange>();
  exchange->head.method = "GET";
  exchange->head.target = "/v1/whoami";
  api->Handle(exchange, tenants::Identity{.key_id = "root:1000", .role = Role::kAdmin});
  EXPECT_EQ(json::parse(exchange->response->body).at("key"), "root:1000");
}

TEST_F(ApiTest, WithoutTenantsThereIsOneAdmin) {
  EXPECT_EQ(Get("/v1/whoami").at("role"), "admin");
  EXPECT_EQ(Get("/v1/tenants").at("items"), json::array());
  EXPECT_EQ(Status("GET", "/v1/keys"), 409);
  EXPECT_EQ(Status("POST", "/v1/keys", R"({"role": "admin"})"), 409);
}

class SharedApiTest : public TenantsApiTest {
 protected:
  void Limit(const std::string& of_red, size_t in_flight = 0) {
    keys_of_tenants->Replace(*tenants::ParseTenants(
        "[[tenants]]\nname = \"red\"\nmax = {" + of_red + "}\n[[tenants]]\nname = \"blue\"\n",
        "t"));
    api->SetLimit(in_flight);
  }
  std::shared_ptr<FakeExchange> AskBy(const std::string& key, const std::string& idempotency = "") {
    const json body = {{"image", {{"uri", "busybox"}}},
                       {"entrypoint", {"sleep"}},
                       {"resourceLimits", json::object()}};
    std::vector<http::Header> headers = {{kKeyHeader, key}};
    if (!idempotency.empty()) headers.push_back({"Idempotency-Key", idempotency});
    return Send("POST", "/v1/sandboxes", body.dump(), headers);
  }
  void ExpectTooMany(const FakeExchange& exchange) {
    ASSERT_TRUE(exchange.response);
    EXPECT_EQ(exchange.response->status, 429) << exchange.response->body;
    EXPECT_EQ(json::parse(exchange.response->body).at("code"), "SANDBOX::TOO_MANY");
    EXPECT_FALSE(exchange.response->headers.Get("Retry-After").empty());
  }
};

TEST_F(SharedApiTest, CreatesAndForksHaveOneRate) {
  Limit("creates_per_second = 0.001");
  const std::string id = CreateBy(keys[Role::kDeveloper]);
  ExpectTooMany(*AskBy(keys[Role::kDeveloper], "k"));
  ExpectTooMany(*By(keys[Role::kDeveloper], "POST", "/v1/sandboxes/" + id + "/fork"));
  EXPECT_EQ(sandboxes->registry.size(), 1U);
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_TRUE(spawner.copies.empty());
  EXPECT_EQ(StatusBy(keys[Role::kDeveloper], "GET", "/v1/sandboxes"), 200);
  EXPECT_FALSE(CreateBy(blue).empty());
  // The refused request has not taken its key.
  Limit("sandboxes = 9");
  const auto made = AskBy(keys[Role::kDeveloper], "k");
  spawner.AnswerBuild();
  ASSERT_TRUE(made->response);
  EXPECT_EQ(made->response->status, 202) << made->response->body;
}

TEST_F(SharedApiTest, RequestsHaveARate) {
  Limit("requests_per_second = 0.001");
  EXPECT_EQ(StatusBy(keys[Role::kViewer], "GET", "/v1/sandboxes"), 200);
  ExpectTooMany(*By(keys[Role::kDeveloper], "GET", "/v1/sandboxes"));
  ExpectTooMany(*By(keys[Role::kDeveloper], "GET", "/v1/no-such-route"));
  ExpectTooMany(*AskBy(keys[Role::kDeveloper]));
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_EQ(StatusBy(blue, "GET", "/v1/sandboxes"), 200);
  // An admin belongs to the host.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(StatusBy(keys[Role::kAdmin], "GET", "/v1/sandboxes"), 200);
}

TEST_F(SharedApiTest, ARequestHoldsItsPlaceUntilItIsAnswered) {
  const std::string of_red = CreateBy(keys[Role::kDeveloper]), of_blue = CreateBy(blue);
  const auto into = [](const std::string& id) {
    return "/v1/sandboxes/" + id + "/proxy/44772/ping";
  };
  Limit("sandboxes = 9", 1);
  {
    const auto in_flight = AskBy(keys[Role::kDeveloper]);
    ASSERT_FALSE(in_flight->response);
    const auto refused = By(keys[Role::kDeveloper], "GET", "/v1/sandboxes");
    ASSERT_TRUE(refused->response);
    EXPECT_EQ(refused->response->status, 503) << refused->response->body;
    EXPECT_EQ(CodeOf(refused), "GENERAL::OVERLOADED");
    EXPECT_FALSE(refused->response->headers.Get("Retry-After").empty());
    EXPECT_EQ(StatusBy(keys[Role::kDeveloper], "GET", into(of_red)), 503);
    // Another tenant has its share.
    EXPECT_EQ(StatusBy(blue, "GET", "/v1/sandboxes"), 200);
    EXPECT_TRUE(By(blue, "GET", into(of_blue))->upstream);
    spawner.AnswerBuild();
    ASSERT_TRUE(in_flight->response);
  }
  loop.Run();
  EXPECT_EQ(StatusBy(keys[Role::kDeveloper], "GET", "/v1/sandboxes"), 200);
}

}  // namespace
}  // namespace atl::api
