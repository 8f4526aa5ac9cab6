#include "runtime/api/ingress/proxy.h"
#include "runtime/api/ingress/auth.h"
#include "runtime/api/ingress/egress_api.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace atl::api {
namespace {

constexpr char kProxied[] = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
const std::string kDaemonKey = "the-api-key-of-the-daemon";

std::string Header(const http::Upstream& upstream, std::string_view name) {
  for (const http::Header& header : upstream.set_headers) {
    if (header.name == name) return header.value;
  }
  return "(none)";
}

bool Drops(const http::Upstream& upstream, std::string_view name) {
  return std::find(upstream.drop_headers.begin(), upstream.drop_headers.end(), name) !=
         upstream.drop_headers.end();
}

class ProxyTest : public testing::Test {
 protected:
  ProxyTest() {
    sandbox.id = kProxied;
    sandbox.state = sandbox::State::kRunning;
    sandbox.access_token = "execd-token";
    request.method = "GET";
    request.peer = "192.0.2.7:4000";
    request.headers.Add("Host", "atoll.example:8080");
    request.headers.Add(kExecdTokenHeader, TokenFor(kDaemonKey, "execd-token"));
    ingress.api_key = kDaemonKey;
  }
  Parsed<http::Upstream> Forward(const std::string& after_id) {
    request.target = "/sandboxes/" + std::string(kProxied) + after_id;
    const auto route = FindRoute(request, ingress);
    EXPECT_TRUE(route) << request.target;
    return UpstreamFor(request, *route, known ? &sandbox : nullptr, "/run/x.sock",
                       {.ingress = ingress,
                        .api_key = kDaemonKey,
                        .guesses = &guesses,
                        .refusals = &refusals,
                        .unix_ms = 1'700'000'000'000,
                        .request_id = request_id,
                        .gone = gone});
  }

  sandbox::Sandbox sandbox;
  http::Request request;
  IngressConfig ingress;
  GuessLimit guesses;
  Refusals refusals{"secret", nullptr};
  bool known = true;
  bool gone = false;
  std::string request_id = "id";
};

TEST_F(ProxyTest, ExecdIsReachedDirectly) {
  const auto upstream = Forward("/proxy/44772/files/download?path=%2Fetc%2Fpasswd");
  ASSERT_TRUE(upstream);
  EXPECT_EQ(upstream->target, "/files/download?path=%2Fetc%2Fpasswd");
  EXPECT_EQ(upstream->socket_path, "/run/x.sock");
  // The proxy replaces the client's token with execd's own.
  EXPECT_EQ(Header(*upstream, kExecdTokenHeader), "execd-token");
  EXPECT_EQ(Forward("/proxy/44772")->target, "/");
  EXPECT_EQ(Forward("/proxy/44772?x")->target, "/?x");
  EXPECT_EQ(Forward("/proxy/44772/a/../b")->target, "/a/../b");
}

// Returns the page that a browser gets for `body`.
std::string Shown(const http::Upstream& upstream, const std::string& body, int* status,
                  http::Headers fields = {{{"Content-Type", "text/html; charset=utf-8"}}}) {
  *status = 200;
  return upstream.edit_body(body, status, &fields);
}

constexpr char kModulePage[] = "<html><script async type=\"module\" src=\"/a.js\"></script></html>";

TEST_F(ProxyTest, APageThatNeedsAnOriginIsExplained) {
  request.headers.Set("Host", "127.0.0.1:8080");
  // A client that is not a browser gets the page unchanged.
  EXPECT_FALSE(Forward("/proxy/8443/")->edit_body);
  request.headers.Set("Sec-Fetch-Dest", "document");
  const auto upstream = Forward("/proxy/8443/?folder=/a&b=\"");
  ASSERT_TRUE(upstream && upstream->edit_body);
  EXPECT_EQ(Header(*upstream, "Accept-Encoding"), "identity");
  int status = 0;
  const std::string page = Shown(*upstream, kModulePage, &status);
  EXPECT_EQ(status, 409);
  EXPECT_NE(page.find("<a href=\"http://" + std::string(kProxied) +
                      "-8443.localhost:8080/?folder=/a&amp;b=&quot;\">"),
            std::string::npos)
      << page;
  // A page that works without an origin passes unchanged.
  const std::string plain = "<html><script src=\"a.js\"></script> type=\"module\"</html>";
  EXPECT_EQ(Shown(*upstream, plain, &status), plain);
  EXPECT_EQ(status, 200);
  EXPECT_EQ(Shown(*upstream, kModulePage, &status,
                  {{{"Content-Type", "text/html"}, {"Access-Control-Allow-Origin", "*"}}}),
            kModulePage);
  EXPECT_EQ(Shown(*upstream, kModulePage, &status, {{{"Content-Type", "text/plain"}}}),
            kModulePage);
  const std::string endless = "<html><script " + std::string(600, 'x') + " type=\"module\"></html>";
  EXPECT_EQ(Shown(*upstream, endless, &status), endless) << "a tag is read to a bound";
  // A name below localhost does not lead to another host.
  request.headers.Set("Host", "atoll.example:8080");
  const auto far = Forward("/proxy/8443/");
  EXPECT_NE(
      Shown(*far, kModulePage, &status).find("atoll forward " + std::string(kProxied) + " 8443"),
      std::string::npos);
  ingress.told = RouteForm::kHost;
  ingress.address = "boxes.example";
  EXPECT_NE(Shown(*Forward("/proxy/8443/x"), kModulePage, &status)
                .find("http://" + std::string(kProxied) + "-8443.boxes.example/x"),
            std::string::npos);
  EXPECT_FALSE(Forward("/proxy/44772/")->edit_body);
}

TEST_F(ProxyTest, ATokenEndsWithTheKeyThatItWasToldBy) {
  for (const std::string& token :
       {std::string(), std::string("execd-token"), TokenFor("an-older-key", "execd-token"),
        TokenFor(kDaemonKey, "another-token")}) {
    request.headers.Set(kExecdTokenHeader, token);
    const auto refused = Forward("/proxy/44772/ping");
    ASSERT_FALSE(refused) << token;
    EXPECT_EQ(refused.error().status, 401) << token;
  }
  sandbox.secure_token = "secure";
  request.headers.Set(kSecureAccessHeader, TokenFor("an-older-key", "secure"));
  ASSERT_FALSE(Forward("/proxy/8080/"));
  EXPECT_EQ(Forward("/proxy/8080/").error().status, 401);
  request.headers.Set(kSecureAccessHeader, TokenFor(kDaemonKey, "secure"));
  EXPECT_TRUE(Forward("/proxy/8080/"));
  EXPECT_NE(EgressToken("secret", kDaemonKey, kProxied),
            EgressToken("secret", "an-older-key", kProxied));
}

TEST_F(ProxyTest, TheApiKeyOpensExecdToo) {
  request.headers.Remove(kExecdTokenHeader);
  request.headers.Add(kApiKeyHeader, kDaemonKey);
  const auto upstream = Forward("/proxy/44772/ping");
  ASSERT_TRUE(upstream);
  EXPECT_EQ(Header(*upstream, kExecdTokenHeader), "execd-token");
  EXPECT_TRUE(Drops(*upstream, kApiKeyHeader));

  // If a client sends a token, the token must be right.
  request.headers.Add(kExecdTokenHeader, "stale");
  EXPECT_FALSE(Forward("/proxy/44772/ping"));

  request.headers.Remove(kExecdTokenHeader);
  request.headers.Set(kApiKeyHeader, std::string(kDaemonKey) + "x");
  EXPECT_FALSE(Forward("/proxy/44772/ping"));
  request.headers.Remove(kApiKeyHeader);
  request.headers.Set("Authorization", "Bearer " + kDaemonKey);
  EXPECT_TRUE(Forward("/proxy/44772/ping"));
}

TEST_F(ProxyTest, AWrongTokenOfExecdsIsRefusedHere) {
  // The proxy answers as execd would. execd itself would have to be resumed to refuse.
  const std::string body =
      R"({"error":"Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"})";
  for (const auto state : {sandbox::State::kRunning, sandbox::State::kPaused}) {
    sandbox.state = state;
    sandbox.reason = sandbox::kIdlePaused;
    for (const char* token : {"", "execd-token", "execd-token-", "EXECD-TOKEN"}) {
      request.headers.Set(kExecdTokenHeader, token);
      for (const char* path : {"/proxy/44772/ping", "/proxy/44772/proxy/80/", "/proxy/044772/"}) {
        const auto refused = Forward(path);
        ASSERT_FALSE(refused) << path << " with " << token;
        EXPECT_EQ(refused.error().status, 401);
        EXPECT_EQ(refused.error().body, body);
      }
    }
    request.headers.Set(kExecdTokenHeader, TokenFor(kDaemonKey, "execd-token"));
    EXPECT_TRUE(Forward("/proxy/44772/ping"));
    request.headers.Remove(kExecdTokenHeader);
    EXPECT_EQ(Forward("/proxy/44772/ping").error().status, 401);
  }
  // The operator has turned tokens off.
  sandbox.access_token.clear();
  EXPECT_TRUE(Forward("/proxy/44772/ping"));
}

TEST_F(ProxyTest, OtherPortsGoThroughExecdWithItsToken) {
  const auto upstream = Forward("/proxy/8080/a%2Fb//c?x=1&x=2+%20");
  ASSERT_TRUE(upstream);
  EXPECT_EQ(upstream->target, "/proxy/8080/a%2Fb//c?x=1&x=2+%20");
  EXPECT_EQ(Header(*upstream, kExecdTokenHeader), "execd-token");
  EXPECT_EQ(Header(*upstream, "Host"), "localhost:8080");
  EXPECT_EQ(Forward("/proxy/8080")->target, "/proxy/8080/");
  EXPECT_EQ(Forward("/proxy/8080?x=1")->target, "/proxy/8080/?x=1");
  EXPECT_EQ(Forward("/proxy/00080/y")->target, "/proxy/80/y");
}

TEST_F(ProxyTest, NoWayFromAPortToExecdsOwnPaths) {
  // The request carries our token, so "/proxy/80/../../command" must not become "/command".
  for (const char* path :
       {"/proxy/80/../../command", "/proxy/80/..", "/proxy/80/a/../../../command",
        "/proxy/80/%2e%2e/%2e%2e/command", "/proxy/80/.%2E/x", "/proxy/80/./x", "/proxy/80/a/.",
        "/proxy/80/..%2f..%2fcommand", "/proxy/80/..%5c..%5ccommand", "/proxy/80/..\\..\\command",
        "/proxy/80/%zz", "/proxy/80/a%2f..", "/proxy/80/%2e%2e?x"}) {
    const auto upstream = Forward(path);
    ASSERT_FALSE(upstream) << path;
    EXPECT_EQ(upstream.error().status, 400) << path;
  }
  for (const char* path : {"/proxy/80/a..b", "/proxy/80/...", "/proxy/80/x?y=/../z",
                           "/proxy/80/..a/b..", "/proxy/80/%2e%2e%2e"}) {
    EXPECT_TRUE(Forward(path)) << path;
  }
}

TEST_F(ProxyTest, SecretsOfTheDaemonsOriginDoNotPass) {
  request.headers.Add("OPEN-SANDBOX-API-KEY", kDaemonKey);
  request.headers.Add("Authorization", "Basic x");
  request.headers.Add("Cookie", "a=b");
  // The Go SDK sends this header if an endpoint named no token.
  request.headers.Add("OPENSANDBOX-EGRESS-AUTH", kDaemonKey);
  request.headers.Add("X-Custom", std::string("Bearer ") + kDaemonKey);
  request.headers.Add("X-Other", "kept");
  const auto upstream = Forward("/proxy/8080/");
  ASSERT_TRUE(upstream);
  for (const char* name :
       {"OPEN-SANDBOX-API-KEY", "Authorization", "Cookie", "OPENSANDBOX-EGRESS-AUTH", "X-Custom"}) {
    EXPECT_TRUE(Drops(*upstream, name)) << name;
  }
  EXPECT_FALSE(Drops(*upstream, "X-Other"));
}

TEST_F(ProxyTest, TheKeyDoesNotPassInAUrl) {
  std::string escaped;
  for (const char c : kDaemonKey) escaped += c == 'k' ? std::string("%6B") : std::string(1, c);
  for (const std::string& key : {kDaemonKey, escaped}) {
    for (const std::string& rest :
         {"/" + key, "/a/" + key + "/b", "/?key=" + key, "/?x=%&key=" + key + "&y", "/?" + key}) {
      const auto refused = Forward("/proxy/8080" + rest);
      ASSERT_FALSE(refused) << rest;
      EXPECT_EQ(refused.error().status, 400) << rest;
      EXPECT_EQ(refused.error().body.find(kDaemonKey), std::string::npos) << rest;
      EXPECT_FALSE(Forward("/proxy/44772" + (rest[1] == '?' ? "/ping" + rest.substr(1) : rest)));
    }
  }
  EXPECT_TRUE(Forward("/proxy/8080/the-api-key?x=%"));
}

TEST_F(ProxyTest, TheKeyDoesNotPassInWhatIsMadeOfTheRequest) {
  EXPECT_EQ(Header(*Forward("/proxy/8080/"), "X-Request-ID"), "id");
  request_id = kDaemonKey;
  request.headers.Set("Host", kDaemonKey + ".example");
  const auto upstream = Forward("/proxy/8080/");
  ASSERT_TRUE(upstream);
  for (const char* name : {"X-Request-ID", "X-Forwarded-Host"}) {
    EXPECT_EQ(Header(*upstream, name), "(none)");
  }
}

TEST_F(ProxyTest, WhoAsksIsNotTheClientsToSay) {
  const auto upstream = Forward("/proxy/8080/");
  EXPECT_EQ(Header(*upstream, "X-Forwarded-Proto"), "http");
  EXPECT_EQ(Header(*upstream, "X-Forwarded-Host"), "atoll.example:8080");
  EXPECT_EQ(Header(*upstream, "X-Forwarded-For"), "192.0.2.7");
  for (const char* name : {"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port",
                           "X-Forwarded-Proto", "X-Real-IP"}) {
    EXPECT_TRUE(Drops(*upstream, name)) << name;
  }
}

TEST_F(ProxyTest, Refusals) {
  for (const char* port : {"0", "65536", "x", "-1", "+1", "99999999999", "8080x", ""}) {
    const auto upstream = Forward("/proxy/" + std::string(port) + "/");
    ASSERT_FALSE(upstream) << port;
    EXPECT_EQ(upstream.error().status, 400) << port;
  }
  sandbox.state = sandbox::State::kTerminated;
  EXPECT_EQ(Forward("/proxy/80/").error().status, 410);
  sandbox.state = sandbox::State::kPaused;
  EXPECT_EQ(Forward("/proxy/80/").error().status, 409);
  known = false;
  EXPECT_EQ(Forward("/proxy/80/").error().status, 404);
  gone = true;
  EXPECT_EQ(Forward("/proxy/80/").error().status, 404);
  EXPECT_EQ(Forward("/proxy/0/").error().status, 400);
}

TEST_F(ProxyTest, CookiesPassOnlyToAnOriginOfTheirOwn) {
  request.headers.Add("Cookie", "a=b");
  request.headers.Add("Authorization", "Basic x");
  const auto shared = Forward("/proxy/80/");
  ASSERT_TRUE(shared);
  EXPECT_TRUE(Drops(*shared, "Cookie"));
  EXPECT_TRUE(Drops(*shared, "Authorization"));

  ingress.domain = "box.example";
  request.headers.Set("Host", std::string(kProxied) + "-80.box.example");
  request.target = "/x";
  const auto route = FindRoute(request, ingress);
  ASSERT_TRUE(route);
  const auto own =
      UpstreamFor(request, *route, &sandbox, "/run/x.sock", {ingress, kDaemonKey, &guesses});
  ASSERT_TRUE(own);
  EXPECT_FALSE(Drops(*own, "Cookie"));
  EXPECT_FALSE(Drops(*own, "Authorization"));
  // A header with the daemon's key is dropped, whichever header it is.
  request.headers.Set("Authorization", "Bearer " + kDaemonKey);
  EXPECT_TRUE(
      Drops(*UpstreamFor(request, *route, &sandbox, "/run/x.sock", {ingress, kDaemonKey, &guesses}),
            "Authorization"));
}

TEST_F(ProxyTest, WhatExecdHasForTheDaemonIsNotReached) {
  request.headers.Add(kExecdTokenHeader, "execd-token");
  for (const char* path : {"/.atoll/entrypoint/output", "/.atoll/entrypoint/output?offset=0",
                           "/.atoll/entrypoint/output/", "/%2eatoll/entrypoint%2Foutput"}) {
    const auto refused = Forward(std::string("/proxy/44772") + path);
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().status, 404) << path;
  }
  // A server in the sandbox may use any path.
  EXPECT_TRUE(Forward("/proxy/80/.atoll/entrypoint/output"));
  const auto other = Forward("/proxy/44772/ping");
  ASSERT_TRUE(other);
  EXPECT_TRUE(Drops(*other, "X-Atoll-Internal"));
}

}  // namespace
}  // namespace atl::api
