// Client requests for sandboxes.
#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

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
  EXPECT_EQ(refused->response->status, 400);
  EXPECT_EQ(CodeOf(refused), "DOCKER::SANDBOX_IMAGE_NOT_FOUND");

  body["image"]["uri"] = "busybox";
  body["resourceLimits"] = {{"memory", "lots"}};
  refused = Send("POST", "/v1/sandboxes", body.dump());
  EXPECT_EQ(refused->response->status, 400);
  EXPECT_EQ(CodeOf(refused), "SANDBOX::INVALID_PARAMETER");
  EXPECT_NE(refused->response->body.find("'lots'"), std::string::npos);

  for (const char* key : {"gpu", "disk"}) {
    body["resourceLimits"] = {{key, "1000000000"}};
    refused = Send("POST", "/v1/sandboxes", body.dump());
    EXPECT_EQ(refused->response->status, 400) << key;
    EXPECT_EQ(CodeOf(refused), "SANDBOX::API_NOT_SUPPORTED") << key;
  }
  body["resourceLimits"] = {{"io", "rbps=1Mi"}};  // this host cannot enforce it
  EXPECT_EQ(Send("POST", "/v1/sandboxes", body.dump())->response->status, 400);
  EXPECT_EQ(Status("POST", "/v1/sandboxes", "{"), 422);
  EXPECT_EQ(Status("POST", "/v1/sandboxes", std::string(5 << 20, ' ')), 400);
  EXPECT_EQ(sandboxes->registry.size(), 0U);
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

// The kernel removes the link of a sandbox that ends, before the daemon knows.
TEST_F(ApiTest, ALinkThatHasGoneHasNoCounters) {
  const std::string path = "/v1/sandboxes/" + Create() + "/network";
  EXPECT_TRUE(Get(path).contains("counters"));
  network.link_error = ENODEV;
  EXPECT_FALSE(Get(path).contains("counters"));
  EXPECT_EQ(Status("GET", path), 200);
  network.link_error = EPERM;
  EXPECT_EQ(Status("GET", path), 500);
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
  // Requests to a paused sandbox are refused at once, but its endpoints can be read.
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
  EXPECT_EQ(sandboxes->registry.size(), 1U);
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

TEST_F(ApiTest, Diagnostics) {
  const std::string id = Create({{"env", {{"MY_KEY", "hush"}, {"SEEN", "yes"}}}});
  const std::string base = "/v1/sandboxes/" + id + "/diagnostics/";
  for (const char* path : {"logs", "logs?scope=all", "events", "events?scope=all", "inspect",
                           "summary", "logs?follow=true"}) {
    EXPECT_EQ(Status("GET", std::string("/sandboxes/x/diagnostics/") + path), 404) << path;
  }
  const auto text = Send("GET", base + "logs");
  EXPECT_EQ(text->response->body, "(no logs)");
  EXPECT_EQ(text->response->headers.Get("Deprecation"), "true");
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

}  // namespace
}  // namespace atl::api
