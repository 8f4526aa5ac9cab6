// The API as a whole, in front of a real Lifecycle whose spawner, network and images are fakes.
#include "runtime/api/api.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/unit/sandbox/fakes.h"

namespace atl::api {
namespace {

using nlohmann::json;

constexpr char kKey[] = "test-api-key";

// Keeps what the API did with it.
class FakeExchange final : public http::Exchange {
 public:
  const http::Request& request() const override { return head; }
  void ReadBody(size_t limit, std::function<void(Result<std::string>)> done) override {
    if (body.size() > limit) return done(Fail(Code::kResourceExhausted, "too large"));
    done(body);
  }
  void SaveBody(int, uint64_t, std::function<void(Result<uint64_t>)> done) override {
    done(Fail(Error(Code::kResourceExhausted, "disk full", ENOSPC)));
  }
  void Respond(http::Response r) override { response = std::move(r); }
  std::shared_ptr<http::ResponseStream> Stream(http::Response) override { return nullptr; }
  void Forward(http::Upstream u) override { upstream = std::move(u); }

  http::Request head;
  std::string body;
  std::optional<http::Response> response;
  std::optional<http::Upstream> upstream;
};

class ApiTest : public testing::Test {
 protected:
  ApiTest() {
    char name[] = "/tmp/api_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    sandbox::LifecycleConfig config;
    config.socket_directory = directory;
    config.limits_available = {"memory", "pids", "cpu"};
    sandbox::SlotPool::Config pool_config;
    pool_config.socket_directory = directory;
    pool = std::make_unique<sandbox::SlotPool>(loop, clock, spawner, network, pool_config);
    lifecycle = std::make_unique<sandbox::Lifecycle>(
        sandbox::Lifecycle::Parts{loop, clock, spawner, network, images, *store, *pool}, config);
    EXPECT_TRUE(lifecycle->Start({}));
    loop.Pass(100'000);
    api =
        std::make_unique<Api>(ApiConfig{.api_key = kKey, .endpoint = {.address = "127.0.0.1:8080"}},
                              *lifecycle, images, health, [this] { quit = true; });
  }
  ~ApiTest() override { std::filesystem::remove_all(directory); }

  std::shared_ptr<FakeExchange> Send(const std::string& method, const std::string& target,
                                     const std::string& body = "",
                                     std::vector<http::Header> headers = {{kKeyHeader, kKey}}) {
    auto exchange = std::make_shared<FakeExchange>();
    exchange->head.method = method;
    exchange->head.target = target;
    exchange->head.headers.list = std::move(headers);
    exchange->head.headers.Add("Host", "atoll.example:81");
    exchange->head.peer = "127.0.0.1:4";
    exchange->body = body;
    api->Handle(exchange);
    loop.Run();
    if (exchange->response) {
      EXPECT_FALSE(exchange->response->headers.Get("X-Request-ID").empty());
    }
    return exchange;
  }
  int Status(const std::string& method, const std::string& target, const std::string& body = "") {
    const auto exchange = Send(method, target, body);
    return exchange->response ? exchange->response->status : 0;
  }
  json Get(const std::string& target) {
    const auto exchange = Send("GET", target);
    EXPECT_EQ(exchange->response->status, 200) << target;
    return json::parse(exchange->response->body);
  }
  std::string CodeOf(const std::shared_ptr<FakeExchange>& exchange) {
    return json::parse(exchange->response->body).at("code");
  }
  std::string Create(json extra = json::object()) {
    json body = {{"image", {{"uri", "busybox"}}},
                 {"entrypoint", {"tail", "-f", "/dev/null"}},
                 {"resourceLimits", json::object()}};
    body.update(extra);
    const auto exchange = Send("POST", "/v1/sandboxes", body.dump());
    EXPECT_FALSE(exchange->response);
    spawner.AnswerBuild();
    EXPECT_TRUE(exchange->response);
    EXPECT_EQ(exchange->response->status, 202);
    created = json::parse(exchange->response->body);
    return created.at("id");
  }

  static constexpr char kKeyHeader[] = "OPEN-SANDBOX-API-KEY";
  std::string directory;
  sandbox::FakeClock clock;
  sandbox::FakeLoop loop{clock};
  sandbox::FakeSpawner spawner{loop};
  sandbox::FakeNetwork network;
  sandbox::FakeImages images;
  Health health;
  std::unique_ptr<sandbox::Store> store = std::move(*sandbox::Store::Open(":memory:"));
  std::unique_ptr<sandbox::SlotPool> pool;
  std::unique_ptr<sandbox::Lifecycle> lifecycle;
  std::unique_ptr<Api> api;
  json created;
  bool quit = false;
};

TEST_F(ApiTest, HealthNeedsNoKeyEverythingElseDoes) {
  EXPECT_EQ(Send("GET", "/health", "", {})->response->body, R"({"status":"healthy"})");
  for (const char* target : {"/sandboxes", "/v1/sandboxes", "/v1/images", "/metrics", "/nope",
                             "/v1/sandboxes/x", "/sandboxes/x/proxyy/80/", "/healthz"}) {
    const auto refused = Send("GET", target, "", {});
    EXPECT_EQ(refused->response->status, 401) << target;
    EXPECT_EQ(CodeOf(refused), "MISSING_API_KEY");
  }
  EXPECT_EQ(CodeOf(Send("GET", "/sandboxes", "", {{kKeyHeader, "wrong"}})), "INVALID_API_KEY");
}

TEST_F(ApiTest, HealthTellsWhatIsWrongUntilItIsWell) {
  health.Set("spawner", "it is gone");
  EXPECT_EQ(Send("GET", "/health", "", {})->response->body,
            R"({"status":"degraded","troubles":{"spawner":"it is gone"}})");
  EXPECT_EQ(Send("GET", "/health", "", {})->response->status, 200);
  EXPECT_NE(Send("GET", "/metrics")->response->body.find("atoll_trouble{subject=\"spawner\"} 1\n"),
            std::string::npos);
  health.Clear("spawner");
  EXPECT_EQ(Send("GET", "/health", "", {})->response->body, R"({"status":"healthy"})");
}

TEST_F(ApiTest, RequestIdIsEchoedOrMade) {
  const auto echoed = Send("GET", "/health", "", {{"X-Request-ID", " my-id "}});
  EXPECT_EQ(echoed->response->headers.Get("X-Request-ID"), "my-id");
  for (const std::string& bad :
       {std::string("a b"), std::string(200, 'x'), std::string("\xc3\xa9")}) {
    const auto made = Send("GET", "/health", "", {{"X-Request-ID", bad}});
    EXPECT_EQ(made->response->headers.Get("X-Request-ID").size(), 32U);
  }
}

TEST_F(ApiTest, CorsBeforeAuth) {
  const auto preflight = Send("OPTIONS", "/v1/sandboxes", "",
                              {{"Origin", "https://app.example"},
                               {"Access-Control-Request-Method", "POST"},
                               {"Access-Control-Request-Headers", "open-sandbox-api-key"}});
  EXPECT_EQ(preflight->response->status, 200);
  EXPECT_EQ(preflight->response->headers.Get("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(preflight->response->headers.Get("Access-Control-Allow-Headers"),
            "open-sandbox-api-key");
  const auto refused = Send("GET", "/v1/sandboxes", "", {{"Origin", "https://app.example"}});
  EXPECT_EQ(refused->response->status, 401);
  EXPECT_EQ(refused->response->headers.Get("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_FALSE(Send("GET", "/health")->response->headers.Has("Access-Control-Allow-Origin"));
}

TEST_F(ApiTest, CorsOfAServerInASandboxIsItsOwn) {
  const std::string id = Create();
  const std::vector<http::Header> preflight = {{"Origin", "https://evil.example"},
                                               {"Access-Control-Request-Method", "POST"}};
  const auto asked = Send("OPTIONS", "/sandboxes/" + id + "/proxy/8000/x", "", preflight);
  ASSERT_TRUE(asked->upstream);
  http::Headers answer{{{"Access-Control-Allow-Origin", "https://app.example"}}};
  asked->upstream->edit_response(200, &answer);
  EXPECT_EQ(answer.Get("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_FALSE(answer.Has("Access-Control-Allow-Credentials"));
  EXPECT_TRUE(answer.Has("Content-Security-Policy"));
  // Nor do our own errors there have it, or what execd reaches servers by.
  EXPECT_FALSE(
      Send("GET", "/sandboxes/" + id + "/proxy/x/", "", {{"Origin", "https://evil.example"}})
          ->response->headers.Has("Access-Control-Allow-Origin"));
  for (const char* path : {"/proxy/44772/proxy/8000/", "/proxy/44772/%70roxy/8000/"}) {
    EXPECT_TRUE(Send("OPTIONS", "/sandboxes/" + id + path, "", preflight)->upstream) << path;
  }
  // execd's own API is ours.
  EXPECT_EQ(Send("OPTIONS", "/sandboxes/" + id + "/proxy/44772/command", "", preflight)
                ->response->headers.Get("Access-Control-Allow-Origin"),
            "https://evil.example");
}

TEST_F(ApiTest, WithoutAKeyNoPageIsAnswered) {
  api = std::make_unique<Api>(ApiConfig{}, *lifecycle, images, health, [] {});
  for (const char* method : {"GET", "OPTIONS", "POST"}) {
    const auto refused = Send(method, "/v1/sandboxes", "",
                              {{"Host", "127.0.0.1:1"},
                               {"Origin", "http://127.0.0.1:1"},
                               {"Access-Control-Request-Method", "GET"}});
    EXPECT_EQ(refused->response->status, 403) << method;
    EXPECT_FALSE(refused->response->headers.Has("Access-Control-Allow-Origin")) << method;
  }
}

TEST_F(ApiTest, ErrorsTellNoPathOfOurs) {
  api = std::make_unique<Api>(ApiConfig{.api_key = kKey, .private_directories = {directory}},
                              *lifecycle, images, health, [] {});
  const std::string id = Create();
  const auto proxied = Send("GET", "/sandboxes/" + id + "/proxy/80/", "", {{"X-Request-ID", "r1"}});
  const http::Response broken = proxied->upstream->on_error(
      Error(Code::kUnavailable, "connect " + proxied->upstream->socket_path + ": ECONNREFUSED"));
  EXPECT_EQ(broken.body.find(directory), std::string::npos) << broken.body;
  EXPECT_NE(broken.body.find(": ECONNREFUSED"), std::string::npos) << broken.body;
  EXPECT_NE(broken.body.find("request r1"), std::string::npos) << broken.body;

  const json body = {
      {"image", {{"uri", "busybox"}}}, {"entrypoint", {"sh"}}, {"resourceLimits", json::object()}};
  const auto exchange = Send("POST", "/v1/sandboxes", body.dump());
  spawner.AnswerBuild(
      Fail(Code::kUnavailable, "connect to " + directory + "/spawner.sock: EAGAIN"));
  EXPECT_EQ(exchange->response->body.find(directory), std::string::npos);
  EXPECT_NE(exchange->response->body.find("EAGAIN"), std::string::npos);
}

TEST_F(ApiTest, RoutesThatAreNotThere) {
  const auto lost = Send("GET", "/v1/nope");
  EXPECT_EQ(lost->response->status, 404);
  EXPECT_EQ(json::parse(lost->response->body).at("detail"), "Not Found");
  const auto method = Send("PUT", "/v1/sandboxes");
  EXPECT_EQ(method->response->status, 405);
  EXPECT_EQ(method->response->headers.Get("Allow"), "POST, GET");
  EXPECT_EQ(Status("HEAD", "/v1/sandboxes"), 405);
  const auto slash = Send("GET", "/v1/sandboxes/?page=2");
  EXPECT_EQ(slash->response->status, 307);
  EXPECT_EQ(slash->response->headers.Get("Location"), "/v1/sandboxes?page=2");
  EXPECT_EQ(Status("GET", "//evil.example/"), 404);
}

TEST_F(ApiTest, CreateGetListDelete) {
  const std::string id = Create({{"timeout", 600}, {"metadata", {{"team", "ml"}}}});
  EXPECT_EQ(created.at("status").at("state"), "Running");
  EXPECT_EQ(created.at("status").at("reason"), "CONTAINER_RUNNING");
  EXPECT_EQ(created.at("metadata").at("team"), "ml");
  EXPECT_FALSE(created.contains("image"));
  EXPECT_EQ(created.at("createdAt"), "2023-11-14T22:13:20.100000Z");
  EXPECT_EQ(created.at("expiresAt"), "2023-11-14T22:23:20.100000Z");

  const json got = Get("/sandboxes/" + id);
  EXPECT_EQ(got.at("image").at("uri"), "busybox:latest");
  EXPECT_EQ(got.at("createdAt"), created.at("createdAt"));
  EXPECT_EQ(got.at("entrypoint"), json({"tail", "-f", "/dev/null"}));
  for (const char* secret : {"env", "access_token", "token", "slot"}) {
    EXPECT_FALSE(got.contains(secret));
  }
  const json list = Get("/v1/sandboxes?metadata=team%3Dml&state=running");
  EXPECT_EQ(list.at("items").size(), 1U);
  EXPECT_EQ(list.at("pagination"), json({{"page", 1},
                                         {"pageSize", 20},
                                         {"totalItems", 1},
                                         {"totalPages", 1},
                                         {"hasNextPage", false}}));

  const auto deleted = Send("DELETE", "/v1/sandboxes/" + id);
  EXPECT_EQ(deleted->response->status, 204);
  EXPECT_TRUE(deleted->response->body.empty());
  for (const char* method : {"GET", "DELETE"}) {
    const auto gone = Send(method, "/v1/sandboxes/" + id);
    EXPECT_EQ(gone->response->status, 404);
    EXPECT_EQ(CodeOf(gone), "DOCKER::SANDBOX_NOT_FOUND");
  }
  EXPECT_EQ(Get("/v1/sandboxes").at("items").size(), 0U);
}

TEST_F(ApiTest, NothingOptionalIsNull) {
  const std::string id = Create();
  EXPECT_EQ(created.dump().find("null"), created.dump().find("/dev/null") + 5);
  EXPECT_FALSE(created.contains("expiresAt"));
  EXPECT_FALSE(created.contains("metadata"));
  EXPECT_FALSE(Get("/sandboxes/" + id).contains("platform"));
}

TEST_F(ApiTest, CreateRefusals) {
  json body = {
      {"image", {{"uri", "nope"}}}, {"entrypoint", {"sh"}}, {"resourceLimits", json::object()}};
  auto refused = Send("POST", "/v1/sandboxes", body.dump());
  EXPECT_EQ(refused->response->status, 404);
  EXPECT_EQ(CodeOf(refused), "DOCKER::SANDBOX_IMAGE_NOT_FOUND");

  body["image"]["uri"] = "busybox";
  body["resourceLimits"] = {{"memory", "lots"}};
  refused = Send("POST", "/v1/sandboxes", body.dump());
  EXPECT_EQ(refused->response->status, 400);
  EXPECT_EQ(CodeOf(refused), "SANDBOX::INVALID_PARAMETER");
  EXPECT_NE(refused->response->body.find("'lots'"), std::string::npos);

  for (const char* key : {"gpu", "disk"}) {
    body["resourceLimits"] = {{key, "1000000000"}};
    EXPECT_EQ(Send("POST", "/v1/sandboxes", body.dump())->response->status, 501) << key;
  }
  body["resourceLimits"] = {{"io", "rbps=1Mi"}};  // not among what this host can enforce
  EXPECT_EQ(Send("POST", "/v1/sandboxes", body.dump())->response->status, 400);
  EXPECT_EQ(Status("POST", "/v1/sandboxes", "{"), 422);
  EXPECT_EQ(Status("POST", "/v1/sandboxes", std::string(5 << 20, ' ')), 413);
  EXPECT_EQ(lifecycle->size(), 0U);
}

TEST_F(ApiTest, ABuildThatFailsIs500) {
  json body = {
      {"image", {{"uri", "busybox"}}}, {"entrypoint", {"sh"}}, {"resourceLimits", json::object()}};
  const auto exchange = Send("POST", "/v1/sandboxes", body.dump());
  spawner.AnswerBuild(Fail(Code::kInternal, "step overlay: mount: no"));
  EXPECT_EQ(exchange->response->status, 500);
  EXPECT_EQ(CodeOf(exchange), "DOCKER::SANDBOX_START_FAILED");
  EXPECT_NE(exchange->response->body.find("step overlay"), std::string::npos);
}

TEST_F(ApiTest, Endpoints) {
  const std::string id = Create();
  const std::string base = "/v1/sandboxes/" + id + "/endpoints/";
  const json execd = Get(base + "44772?use_server_proxy=true");
  EXPECT_EQ(execd.at("endpoint"), "atoll.example:81/v1/sandboxes/" + id + "/proxy/44772");
  EXPECT_EQ(Get(base.substr(3) + "44772").at("endpoint"),
            "atoll.example:81/sandboxes/" + id + "/proxy/44772");
  EXPECT_EQ(execd.at("headers").at("X-EXECD-ACCESS-TOKEN"), lifecycle->Find(id)->access_token);
  EXPECT_EQ(Get(base + "44772"), execd);
  EXPECT_EQ(Get(base + "18080")["headers"]["OPENSANDBOX-EGRESS-AUTH"].get<std::string>().size(),
            32U);
  EXPECT_EQ(Get(base + "8080").at("endpoint"),
            "atoll.example:81/v1/sandboxes/" + id + "/proxy/8080");
  EXPECT_EQ(CodeOf(Send("GET", base + "0")), "DOCKER::INVALID_PORT");
  EXPECT_EQ(CodeOf(Send("GET", base + "65536")), "DOCKER::INVALID_PORT");
  EXPECT_EQ(Status("GET", base + "x"), 422);
  EXPECT_EQ(CodeOf(Send("GET", base + "80?expires=99999999999")), "SANDBOX::API_NOT_SUPPORTED");
  for (const char* query : {"expires=1", "expires=x", "expires=", "expires=18446744073709551616",
                            "expires=99999999999&use_server_proxy=1"}) {
    EXPECT_EQ(CodeOf(Send("GET", base + "80?" + query)), "SANDBOX::INVALID_PARAMETER") << query;
  }
  EXPECT_EQ(Status("GET", "/v1/sandboxes/nope/endpoints/80"), 404);
  // The port is looked at first.
  EXPECT_EQ(CodeOf(Send("GET", "/v1/sandboxes/nope/endpoints/0")), "DOCKER::INVALID_PORT");
}

TEST_F(ApiTest, EndpointsBehindAProxyAndWithSecureAccess) {
  ApiConfig config{.api_key = kKey,
                   .endpoint = {.public_host = "box.example", .base_path = "/atoll"},
                   .ingress = {.keys = {{'k', "secret"}}, .active_key = 'k'}};
  api = std::make_unique<Api>(config, *lifecycle, images, health, [] {});
  const std::string id = Create({{"secureAccess", true}});
  const std::string base = "/v1/sandboxes/" + id + "/endpoints/";
  const json open = Get(base + "8080");
  EXPECT_EQ(open.at("endpoint"), "box.example/atoll/v1/sandboxes/" + id + "/proxy/8080");
  const std::string token = open.at("headers").at("OpenSandbox-Secure-Access");
  EXPECT_EQ(Get(base + "44772").at("headers").size(), 2U);
  const json signed_route = Get(base + "8080?expires=99999999999");
  EXPECT_FALSE(signed_route.contains("headers"));
  const std::string prefix = "box.example/atoll";
  const std::string path = signed_route.at("endpoint").get<std::string>().substr(prefix.size());
  EXPECT_EQ(path, "/" + id + "/8080/19xtf1tr/" +
                      SignRoute({'k', "secret"}, SignatureForm::kLong, id, 8080, "19xtf1tr"));
  const auto passed = Send("GET", path + "/x", "", {});
  ASSERT_TRUE(passed->upstream);
  EXPECT_EQ(passed->upstream->target, "/proxy/8080/x");
  EXPECT_EQ(Send("GET", "/sandboxes/" + id + "/proxy/8080/", "", {})->response->status, 401);
  const auto with =
      Send("GET", "/sandboxes/" + id + "/proxy/8080/", "", {{"OpenSandbox-Secure-Access", token}});
  ASSERT_TRUE(with->upstream);
  const auto& dropped = with->upstream->drop_headers;
  EXPECT_NE(std::find(dropped.begin(), dropped.end(), "OpenSandbox-Secure-Access"), dropped.end());
}

TEST_F(ApiTest, EndpointsOfAGateway) {
  const auto told = [this](RouteForm form, const std::string& address) {
    ApiConfig config{.api_key = kKey,
                     .endpoint = {.public_host = "box.example", .base_path = "/atoll"},
                     .ingress = {.told = form,
                                 .address = address,
                                 .domain = "s.example",
                                 .keys = {{'k', "secret"}},
                                 .active_key = 'k'}};
    api = std::make_unique<Api>(config, *lifecycle, images, health, [] {});
  };
  const std::string id = Create({{"secureAccess", true}});
  const std::string base = "/v1/sandboxes/" + id + "/endpoints/8080";
  const std::string signature =
      "19xtf1tr-" + SignRoute({'k', "secret"}, SignatureForm::kLong, id, 8080, "19xtf1tr");
  const std::string secure = "OpenSandbox-Secure-Access";

  told(RouteForm::kHost, "s.example:8443");
  EXPECT_EQ(Get(base).at("endpoint"), id + "-8080.s.example:8443");
  EXPECT_TRUE(Get(base).at("headers").contains(secure));
  EXPECT_EQ(Get(base + "?expires=99999999999"),
            json({{"endpoint", id + "-8080-" + signature + ".s.example:8443"}}));
  // No label of a host name is longer than 63 characters.
  EXPECT_EQ(CodeOf(Send("GET", base + "?expires=18446744073709551615")),
            "SANDBOX::INVALID_PARAMETER");
  EXPECT_EQ(Get(base + "?use_server_proxy=true").at("endpoint"),
            "box.example/atoll/v1/sandboxes/" + id + "/proxy/8080");

  told(RouteForm::kUri, "s.example");
  EXPECT_EQ(Get(base).at("endpoint"), "s.example/" + id + "/8080");
  const std::string uri = Get(base + "?expires=99999999999").at("endpoint");
  EXPECT_EQ(uri, "s.example/" + id + "/8080/19xtf1tr/" + signature.substr(9));

  told(RouteForm::kHeader, "s.example");
  EXPECT_EQ(Get(base).at("endpoint"), "s.example");
  EXPECT_EQ(Get(base).at("headers").at("OpenSandbox-Ingress-To"), id + "-8080");
  EXPECT_TRUE(Get(base).at("headers").contains(secure));
  EXPECT_EQ(Get(base + "?expires=18446744073709551615").at("headers").size(), 1U);
  EXPECT_EQ(Get(base + "?expires=99999999999").at("headers"),
            json({{"OpenSandbox-Ingress-To", id + "-8080-" + signature}}));
}

TEST_F(ApiTest, ARouteIntoWhatIsGoneIs410) {
  const std::string id = Create();
  EXPECT_EQ(Status("DELETE", "/v1/sandboxes/" + id), 204);
  const auto ways = [this, id](const std::string& of) {
    std::vector<int> statuses;
    statuses.push_back(Status("GET", "/sandboxes/" + of + "/proxy/80/"));
    statuses.push_back(Status("GET", "/" + of + "/80/"));
    statuses.push_back(
        Send("GET", "/", "", {{"OpenSandbox-Ingress-To", of + "-80"}})->response->status);
    return statuses;
  };
  // While it is being removed, and afterwards.
  EXPECT_EQ(ways(id), (std::vector<int>{410, 410, 410}));
  loop.Run();
  EXPECT_EQ(ways(id), (std::vector<int>{410, 410, 410}));
  EXPECT_EQ(CodeOf(Send("GET", "/" + id + "/80/")), "SANDBOX::GONE");
  EXPECT_EQ(ways("3f2504e0-4f89-41d3-9a0c-0305e82c3301"), (std::vector<int>{404, 404, 404}));
  // The API's own routes do not tell the two apart.
  EXPECT_EQ(Status("GET", "/v1/sandboxes/" + id), 404);
}

TEST_F(ApiTest, PauseAndResume) {
  const std::string id = Create();
  const std::string base = "/v1/sandboxes/" + id;
  const auto paused = Send("POST", base + "/pause");
  EXPECT_FALSE(paused->response);
  spawner.AnswerFreeze();
  EXPECT_EQ(paused->response->status, 202);
  EXPECT_EQ(paused->response->body, "");
  EXPECT_EQ(Get(base).at("status").at("state"), "Paused");
  EXPECT_EQ(Get(base).at("status").at("reason"), "CONTAINER_PAUSED");
  // Requests to it are answered at once, its endpoints are told.
  const auto proxied = Send("GET", "/sandboxes/" + id + "/proxy/44772/ping", "", {});
  EXPECT_EQ(proxied->response->status, 409);
  EXPECT_EQ(Status("GET", base + "/endpoints/44772"), 200);
  EXPECT_EQ(CodeOf(Send("POST", base + "/pause")), "DOCKER::SANDBOX_NOT_RUNNING");
  const auto resumed = Send("POST", base + "/resume");
  spawner.AnswerFreeze();
  EXPECT_EQ(resumed->response->status, 202);
  const auto again = Send("POST", base + "/resume");
  EXPECT_EQ(again->response->status, 409);
  EXPECT_EQ(CodeOf(again), "DOCKER::SANDBOX_NOT_PAUSED");
  EXPECT_EQ(CodeOf(Send("POST", "/v1/sandboxes/nope/pause")), "DOCKER::SANDBOX_NOT_FOUND");
  const auto failed = Send("POST", base + "/pause");
  spawner.AnswerFreeze(Fail(Code::kDeadlineExceeded, "no"));
  EXPECT_EQ(failed->response->status, 500);
  EXPECT_EQ(CodeOf(failed), "DOCKER::SANDBOX_PAUSE_FAILED");
}

TEST_F(ApiTest, MetadataPatch) {
  const std::string id = Create({{"metadata", {{"a", "1"}, {"b", "2"}}}});
  const std::string target = "/v1/sandboxes/" + id + "/metadata";
  const auto patched = Send("PATCH", target, R"({"a":null,"c":"3"})");
  EXPECT_EQ(patched->response->status, 200);
  EXPECT_EQ(json::parse(patched->response->body), Get("/v1/sandboxes/" + id));
  EXPECT_EQ(Get("/v1/sandboxes/" + id).at("metadata"), json({{"b", "2"}, {"c", "3"}}));
  EXPECT_EQ(Status("PATCH", target, "[]"), 422);
  EXPECT_EQ(Status("PATCH", "/v1/sandboxes/nope/metadata", "{}"), 404);
}

TEST_F(ApiTest, ARequestWithAKeyIsCarriedOutOnce) {
  const std::string body = R"({"image":{"uri":"busybox"},"entrypoint":["x"],"resourceLimits":{}})";
  const auto send = [&](const std::string& key, const std::string& what) {
    return Send("POST", "/v1/sandboxes", what, {{kKeyHeader, kKey}, {"Idempotency-Key", key}});
  };
  const auto first = send("abc", body), second = send("abc", body);
  spawner.AnswerBuild();
  EXPECT_EQ(first->response->status, 202);
  EXPECT_EQ(first->response->body, second->response->body);
  EXPECT_EQ(send("abc", body)->response->body, first->response->body);
  EXPECT_EQ(send("abc", body + " ")->response->status, 409);
  EXPECT_EQ(send(std::string(256, 'x'), body)->response->status, 400);
  EXPECT_EQ(send("a\tb", body)->response->status, 400);
  EXPECT_EQ(lifecycle->size(), 1U);
}

TEST_F(ApiTest, ProxyNeedsNoKeyAndCarriesTheRequestId) {
  const std::string id = Create();
  const auto exchange =
      Send("POST", "/sandboxes/" + id + "/proxy/44772/command?x=%2F", "", {{"X-Request-ID", "r1"}});
  ASSERT_TRUE(exchange->upstream);
  EXPECT_EQ(exchange->upstream->target, "/command?x=%2F");
  EXPECT_EQ(exchange->upstream->socket_path, lifecycle->SocketPathOf(id));
  http::Headers answer;
  exchange->upstream->edit_response(200, &answer);
  EXPECT_EQ(answer.Get("X-Request-ID"), "r1");
  const http::Response broken =
      exchange->upstream->on_error(Error(Code::kUnavailable, "connect: refused"));
  EXPECT_EQ(broken.status, 502);
  EXPECT_EQ(broken.headers.Get("X-Request-ID"), "r1");
  EXPECT_EQ(Send("GET", "/sandboxes/nope/proxy/80/", "", {})->response->status, 404);
  EXPECT_EQ(Send("GET", "/sandboxes/" + id + "/proxy/x/", "", {})->response->status, 400);
}

TEST_F(ApiTest, Renew) {
  const std::string id = Create({{"timeout", 60}});
  const std::string target = "/v1/sandboxes/" + id + "/renew-expiration";
  const auto renewed = Send("POST", target, R"({"expiresAt":"2030-01-01T00:00:00Z"})");
  EXPECT_EQ(renewed->response->status, 200);
  EXPECT_EQ(renewed->response->body, R"({"expiresAt":"2030-01-01T00:00:00Z"})");
  EXPECT_EQ(Get("/sandboxes/" + id).at("expiresAt"), "2030-01-01T00:00:00Z");
  EXPECT_EQ(Status("POST", target, R"({"expiresAt":"2001-01-01T00:00:00Z"})"), 400);
  EXPECT_EQ(Status("POST", target, "{}"), 422);
  const std::string manual = Create();
  EXPECT_EQ(Status("POST", "/v1/sandboxes/" + manual + "/renew-expiration",
                   R"({"expiresAt":"2030-01-01T00:00:00Z"})"),
            409);
  EXPECT_EQ(Status("POST", "/v1/sandboxes/nope/renew-expiration",
                   R"({"expiresAt":"2030-01-01T00:00:00Z"})"),
            404);
}

TEST_F(ApiTest, WhatIsNotThereYetIs501) {
  const std::pair<const char*, const char*> routes[] = {
      {"POST", "/v1/sandboxes/x/snapshots"}, {"GET", "/v1/snapshots"}, {"GET", "/v1/snapshots/s"},
      {"DELETE", "/v1/snapshots/s"},         {"POST", "/v1/pools"},    {"DELETE", "/v1/pools/p"},
  };
  for (const auto& [method, target] : routes) {
    EXPECT_EQ(Status(method, target), 501) << method << " " << target;
  }
}

TEST_F(ApiTest, Diagnostics) {
  const std::string id = Create({{"env", {{"MY_KEY", "hush"}, {"SEEN", "yes"}}}});
  const std::string base = "/v1/sandboxes/" + id + "/diagnostics/";
  for (const char* path : {"logs", "logs?scope=all", "events", "events?scope=all", "inspect",
                           "summary", "logs?follow=true"}) {
    EXPECT_EQ(Status("GET", std::string("/sandboxes/x/diagnostics/") + path), 404) << path;
  }
  const auto logs = Send("GET", base + "logs");
  EXPECT_EQ(logs->response->body, "(no logs)");
  EXPECT_EQ(logs->response->headers.Get("Deprecation"), "true");
  EXPECT_EQ(CodeOf(Send("GET", base + "logs?scope=events")), "DIAGNOSTICS_SCOPE_UNSUPPORTED");
  EXPECT_EQ(CodeOf(Send("GET", base + "events?scope=container")), "DIAGNOSTICS_SCOPE_UNSUPPORTED");
  const json events = Get(base + "events?scope=lifecycle");
  EXPECT_EQ(events.at("delivery"), "inline");
  EXPECT_NE(std::string(events.at("content")).find(" Running "), std::string::npos);
  EXPECT_EQ(Get(base + "events?scope=runtime").at("content"), "");
  const auto inspect = Send("GET", base + "inspect");
  EXPECT_FALSE(inspect->response->headers.Has("Deprecation"));
  EXPECT_EQ(inspect->response->body.find("hush"), std::string::npos);
  EXPECT_NE(inspect->response->body.find("MY_KEY=***"), std::string::npos);
  EXPECT_NE(inspect->response->body.find("SEEN=yes"), std::string::npos);
  EXPECT_EQ(Status("GET", base + "events?limit=501"), 422);
}

TEST_F(ApiTest, TheServedDocumentHasEveryRouteAndNoOther) {
  const json document = json::parse(Send("GET", "/openapi.json", "", {})->response->body);
  std::set<std::string> described, routed;
  for (const auto& [path, methods] : document.at("paths").items()) {
    // This fixture has no volumes.
    if (path.starts_with("/volumes")) continue;
    for (const auto& [method, operation] : methods.items()) {
      std::string line = method;
      for (char& c : line) c = static_cast<char>(c - 'a' + 'A');
      described.insert(line + " " + std::regex_replace(path, std::regex("\\{[a-z]+\\}"), "{}"));
    }
  }
  for (const auto& [method, pattern] : api->router().All()) {
    routed.insert(method + " " + std::regex_replace(pattern, std::regex("\\{\\+\\}"), "{}"));
  }
  EXPECT_EQ(described, routed);
  const std::string limits = document.at("components")
                                 .at("schemas")
                                 .at("CreateSandbox")
                                 .at("properties")
                                 .at("resourceLimits")
                                 .at("description");
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    EXPECT_NE(limits.find(field.key), std::string::npos) << field.key;
  }
}

TEST_F(ApiTest, Images) {
  EXPECT_EQ(Get("/v1/images").at("items").at(0).at("name"), "busybox:latest");
  EXPECT_EQ(Get("/v1/images/busybox").at("layers"), 2);
  EXPECT_EQ(Status("GET", "/v1/images/nope"), 404);
  EXPECT_EQ(Status("DELETE", "/v1/images/busybox"), 204);
  EXPECT_EQ(Status("POST", "/v1/images?name=UPPER%20case"), 400);
  // The fake's temporary file has no room.
  EXPECT_EQ(Status("POST", "/v1/images?name=x"), 507);
}

TEST_F(ApiTest, MetricsCount) {
  Create();
  const auto exchange = Send("GET", "/v1/metrics");
  EXPECT_NE(exchange->response->body.find("atoll_creates_total{result=\"ok\"} 1\n"),
            std::string::npos);
  EXPECT_NE(exchange->response->body.find("atoll_sandboxes{state=\"Running\"} 1\n"),
            std::string::npos);
}

TEST_F(ApiTest, Shutdown) {
  Create();
  EXPECT_EQ(Status("POST", "/v1/shutdown"), 200);
  EXPECT_TRUE(quit);
  EXPECT_FALSE(spawner.stopped);
  EXPECT_EQ(Status("POST", "/v1/shutdown?all=true"), 200);
  EXPECT_TRUE(spawner.stopped);
  EXPECT_EQ(lifecycle->size(), 0U);
}

}  // namespace
}  // namespace atl::api
