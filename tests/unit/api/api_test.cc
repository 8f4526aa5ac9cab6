#include "runtime/api/routes/api.h"

#include <regex>
#include <set>

#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

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
  const std::string exposed(refused->response->headers.Get("Access-Control-Expose-Headers"));
  for (const char* name : {"OPEN-SANDBOX-ORIGIN", "X-Request-ID", "EXECD-ISOLATED-TAIL-CURSOR"}) {
    EXPECT_NE(exposed.find(name), std::string::npos) << name;
  }
  EXPECT_FALSE(Send("GET", "/health")->response->headers.Has("Access-Control-Allow-Origin"));
}

TEST_F(ApiTest, WithoutAKeyNoPageIsAnswered) {
  Serve(ApiConfig{});
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
  Serve(ApiConfig{.api_key = kKey, .private_directories = {directory}});
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

TEST_F(ApiTest, TheServedDocumentHasEveryRouteAndNoOther) {
  const json document = json::parse(Send("GET", "/openapi.json", "", {})->response->body);
  const std::regex placeholder(
      "\\{[a-z_:]+\\}");  // router and document name their placeholders differently
  std::set<std::string> described, routed;
  for (const auto& [path, methods] : document.at("paths").items()) {
    for (const auto& [method, operation] : methods.items()) {
      std::string line = method;
      for (char& c : line) c = static_cast<char>(c - 'a' + 'A');
      described.insert(line + " " + std::regex_replace(path, placeholder, "{}"));
    }
  }
  for (const auto& [method, pattern] : api->router().All()) {
    routed.insert(method + " " + std::regex_replace(pattern, placeholder, "{}"));
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

TEST_F(ApiTest, TheKeyMayBeABearerToken) {
  using Headers = std::vector<http::Header>;
  const auto status = [this](Headers headers) {
    return Send("GET", "/v1/sandboxes", "", std::move(headers))->response->status;
  };
  EXPECT_EQ(status({{"Authorization", std::string("Bearer ") + kKey}}), 200);
  EXPECT_EQ(status({{"authorization", std::string("bearer  ") + kKey}}), 200);
  EXPECT_EQ(status({{"Authorization", std::string("Bearer ") + kKey}, {kKeyHeader, kKey}}), 200);
  for (const Headers& wrong :
       {Headers{{"Authorization", "Bearer wrong"}}, Headers{{"Authorization", kKey}},
        Headers{{"Authorization", std::string("Basic ") + kKey}},
        Headers{{"Authorization", "Bearer "}},
        // If the two keys differ, the request is refused, because it is unclear which one counts.
        Headers{{"Authorization", "Bearer wrong"}, {kKeyHeader, kKey}},
        Headers{{"Authorization", std::string("Bearer ") + kKey}, {kKeyHeader, "wrong"}}}) {
    EXPECT_EQ(status(wrong), 401) << wrong[0].value;
  }
  const std::string text = PrometheusText(Collect());
  EXPECT_NE(text.find("atoll_auth_failures_total{reason=\"wrong_key\"} 3\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("atoll_auth_failures_total{reason=\"missing_key\"} 3\n"), std::string::npos);
}

TEST_F(ApiTest, MetricsCount) {
  Create();
  EXPECT_EQ(Status("POST", "/v1/sandboxes",
                   R"({"image": {"uri": "nope"}, "entrypoint": ["sh"], "resourceLimits": {}})"),
            400);
  const std::string text = Send("GET", "/v1/metrics")->response->body;
  for (const char* line :
       {"# TYPE atoll_sandbox_creates_total counter\n",
        "atoll_sandbox_creates_total{result=\"ok\",start=\"cold\"} 1\n",
        "atoll_sandbox_creates_total{result=\"refused\",start=\"cold\"} 1\n",
        "atoll_sandbox_creates_total{result=\"error\",start=\"cold\"} 0\n",
        "# TYPE atoll_sandbox_create_duration_seconds histogram\n",
        "atoll_sandbox_create_duration_seconds_bucket{start=\"cold\",le=\"+Inf\"} 1\n",
        "atoll_sandbox_create_duration_seconds_count{start=\"cold\"} 1\n",
        "atoll_sandboxes{state=\"Running\"} 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST_F(ApiTest, Shutdown) {
  Create();
  EXPECT_EQ(Status("POST", "/v1/shutdown"), 200);
  EXPECT_TRUE(quit);
  EXPECT_FALSE(spawner.stopped);
  EXPECT_EQ(Status("POST", "/v1/shutdown?all=true"), 200);
  EXPECT_TRUE(spawner.stopped);
  EXPECT_EQ(sandboxes->registry.size(), 0U);
}

}  // namespace
}  // namespace atl::api
