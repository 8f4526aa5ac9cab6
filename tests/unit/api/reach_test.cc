// The ways into a sandbox, and the addresses that clients get.
#include <algorithm>

#include "runtime/api/ingress/auth.h"
#include "runtime/api/ingress/proxy.h"
#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

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
  // Our own errors on these paths do not allow the origin either. The same goes for servers that
  // are reached through execd.
  EXPECT_FALSE(
      Send("GET", "/sandboxes/" + id + "/proxy/x/", "", {{"Origin", "https://evil.example"}})
          ->response->headers.Has("Access-Control-Allow-Origin"));
  std::vector<http::Header> with_token = preflight;
  with_token.push_back(
      {kExecdTokenHeader, TokenFor(kKey, sandboxes->registry.Find(kCaller, id)->access_token)});
  for (const char* path : {"/proxy/44772/proxy/8000/", "/proxy/44772/%70roxy/8000/"}) {
    EXPECT_TRUE(Send("OPTIONS", "/sandboxes/" + id + path, "", with_token)->upstream) << path;
  }
  // execd's own API counts as ours.
  EXPECT_EQ(Send("OPTIONS", "/sandboxes/" + id + "/proxy/44772/command", "", preflight)
                ->response->headers.Get("Access-Control-Allow-Origin"),
            "https://evil.example");
}

TEST_F(ApiTest, Endpoints) {
  const std::string id = Create();
  const std::string base = "/v1/sandboxes/" + id + "/endpoints/";
  const json execd = Get(base + "44772?use_server_proxy=true");
  EXPECT_EQ(execd.at("endpoint"), "atoll.example:81/v1/sandboxes/" + id + "/proxy/44772");
  EXPECT_EQ(Get(base.substr(3) + "44772").at("endpoint"),
            "atoll.example:81/sandboxes/" + id + "/proxy/44772");
  EXPECT_EQ(execd.at("headers").at("X-EXECD-ACCESS-TOKEN"),
            TokenFor(kKey, sandboxes->registry.Find(kCaller, id)->access_token));
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
  // The port is checked first.
  EXPECT_EQ(CodeOf(Send("GET", "/v1/sandboxes/nope/endpoints/0")), "DOCKER::INVALID_PORT");
}

TEST_F(ApiTest, EndpointsBehindAProxyAndWithSecureAccess) {
  ApiConfig config{.api_key = kKey,
                   .endpoint = {.public_host = "box.example", .base_path = "/atoll"},
                   .ingress = {.keys = {{'k', "secret"}}, .active_key = 'k'}};
  Serve(config);
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
    Serve(config);
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
  // A label of a host name has at most 63 characters.
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
  // The same while the sandbox is being removed, and afterwards.
  EXPECT_EQ(ways(id), (std::vector<int>{404, 404, 404}));
  loop.Run();
  EXPECT_EQ(ways(id), (std::vector<int>{404, 404, 404}));
  const auto gone = Send("GET", "/" + id + "/80/");
  EXPECT_EQ(CodeOf(gone), "DOCKER::SANDBOX_NOT_FOUND");
  // Programs look for these words of upstream's message.
  EXPECT_NE(gone->response->body.find("not found: it has been deleted"), std::string::npos);
  EXPECT_EQ(ways("3f2504e0-4f89-41d3-9a0c-0305e82c3301"), (std::vector<int>{404, 404, 404}));
  // The API's own routes do not distinguish a deleted id from an unknown one.
  EXPECT_EQ(Status("GET", "/v1/sandboxes/" + id), 404);
}

TEST_F(ApiTest, ProxyNeedsNoKeyAndCarriesTheRequestId) {
  const std::string id = Create();
  const auto exchange = Send(
      "POST", "/sandboxes/" + id + "/proxy/44772/command?x=%2F", "",
      {{"X-Request-ID", "r1"},
       {kExecdTokenHeader, TokenFor(kKey, sandboxes->registry.Find(kCaller, id)->access_token)}});
  ASSERT_TRUE(exchange->upstream);
  EXPECT_EQ(exchange->upstream->target, "/command?x=%2F");
  EXPECT_EQ(exchange->upstream->socket_path, sandboxes->registry.SocketPathOf(id));
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

}  // namespace
}  // namespace atl::api
