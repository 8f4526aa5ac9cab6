#include "runtime/api/ingress/ingress.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace atl::api {
namespace {

constexpr char kId[] = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
constexpr int64_t kNowMs = 1'700'000'000'000;

http::Request RequestFor(const std::string& target) {
  http::Request request;
  request.method = "GET";
  request.target = target;
  return request;
}

// Keeps the strings that a Route only points to.
struct Found {
  explicit Found(std::string text) : request(RequestFor(text)) {
    route = FindRoute(request, IngressConfig());
  }
  explicit operator bool() const { return route.has_value(); }
  const Route* operator->() const { return &*route; }
  http::Request request;
  std::optional<Route> route;
};
Found Find(const std::string& target) {
  return Found(target);
}

TEST(Ingress, ProxyForm) {
  struct Case {
    const char* target;
    const char* id;
    const char* port;
    const char* rest;
  };
  const Case good[] = {
      {"/sandboxes/i/proxy/80", "i", "80", ""},
      {"/v1/sandboxes/i/proxy/80", "i", "80", ""},
      {"/sandboxes/i/proxy/80/", "i", "80", "/"},
      {"/sandboxes/i/proxy/80?q=/x", "i", "80", "?q=/x"},
      {"/sandboxes/i/proxy/80/a%2Fb//c?x=1&y=%20+", "i", "80", "/a%2Fb//c?x=1&y=%20+"},
      {"/sandboxes/i/proxy/x/y", "i", "x", "/y"},
      {"/sandboxes/../proxy/80/y", "..", "80", "/y"},
  };
  for (const Case& c : good) {
    const auto target = Find(c.target);
    ASSERT_TRUE(target) << c.target;
    EXPECT_EQ(target->id, c.id);
    EXPECT_EQ(target->port, c.port);
    EXPECT_EQ(target->rest, c.rest);
  }
  for (const char* target :
       {"/sandboxes/i", "/sandboxes/i/endpoints/80", "/sandboxes/i/proxy", "/sandboxes?x=/proxy/80",
        "/v2/sandboxes/i/proxy/80", "/v1/v1/sandboxes/i/proxy/80", "/sandboxes/i?/proxy/80", "*",
        "http://host/sandboxes/i/proxy/80", "/sandboxes/i/x/proxy/80"}) {
    EXPECT_FALSE(Find(target)) << target;
  }
}

class IngressTest : public testing::Test {
 protected:
  IngressTest() {
    config.domain = "box.example.org";
    config.keys = {{'a', "secret"}, {'b', "other"}};
    sandbox.id = kId;
    sandbox.state = sandbox::State::kRunning;
    sandbox.secure_token = "token";
  }
  std::string Signed(uint64_t expires, int port = 8080, char key = 'a',
                     SignatureForm form = SignatureForm::kLong) const {
    const std::string expires36 = ToBase36(expires);
    const RouteKey& with = key == 'a' ? config.keys[0] : config.keys[1];
    return expires36 + "/" + SignRoute(with, form, kId, port, expires36);
  }
  // Returns the rest of the path if the request passes, or the status of the refusal.
  std::string Try(http::Request request) {
    const auto route = FindRoute(request, config);
    if (!route) return "no route";
    EXPECT_EQ(route->id, kId);
    const auto port = ParsePort(route->port);
    if (!port) return "no port";
    const auto rest = Admit(request, *route, *port, sandbox, config, now_ms, guesses.get());
    return rest ? std::string(*rest) : std::to_string(rest.error().status);
  }
  std::string Uri(const std::string& after_id) {
    return Try(RequestFor("/" + std::string(kId) + after_id));
  }

  IngressConfig config;
  sandbox::Sandbox sandbox;
  std::unique_ptr<GuessLimit> guesses = std::make_unique<GuessLimit>();
  int64_t now_ms = kNowMs;
  const uint64_t later = kNowMs / 1000 + 60;
};

TEST_F(IngressTest, UriFormIsOpenWithoutSecureAccess) {
  sandbox.secure_token.clear();
  EXPECT_EQ(Uri("/8080"), "");
  EXPECT_EQ(Uri("/8080/"), "/");
  EXPECT_EQ(Uri("/8080/a/b?c"), "/a/b?c");
  EXPECT_EQ(Uri("/8080?x=/y"), "?x=/y");
  // A path that only looks signed is an ordinary path.
  EXPECT_EQ(Uri("/8080/abc/0123abcda/x"), "/abc/0123abcda/x");
  EXPECT_EQ(Uri("/8080/" + Signed(later) + "/x"), "/x");
  // A link ends at the second that it names.
  EXPECT_EQ(Uri("/8080/" + Signed(kNowMs / 1000) + "/x"), "401");
  EXPECT_EQ(Uri("/0/x"), "no port");
  EXPECT_EQ(Try(RequestFor("/3f2504e0-4f89-41d3-9a0c-0305e82c330/80")), "no route");
}

TEST_F(IngressTest, SecureAccessWantsTokenOrSignature) {
  EXPECT_EQ(Uri("/8080/x"), "401");
  EXPECT_EQ(Try(RequestFor("/sandboxes/" + std::string(kId) + "/proxy/8080/x")), "401");
  EXPECT_EQ(Uri("/8080/" + Signed(later) + "/x?y"), "/x?y");
  EXPECT_EQ(Uri("/8080/" + Signed(later, 8080, 'b')), "");
  // Refused: another port, expired, truncated, an unknown key, not a number.
  EXPECT_EQ(Uri("/8081/" + Signed(later) + "/x"), "401");
  EXPECT_EQ(Uri("/8080/" + Signed(kNowMs / 1000) + "/x"), "401");
  EXPECT_EQ(Uri("/8080/" + ToBase36(later + 1) + Signed(later).substr(6) + "/x"), "401");
  EXPECT_EQ(Uri("/8080/" + ToBase36(later) + "/00000000z/x"), "401");
  EXPECT_EQ(Uri("/8080/0" + Signed(later) + "/x"), "400");
  EXPECT_EQ(Uri("/8080/zzzzzzzzzzzzz/00000000a/x"), "400");
}

TEST_F(IngressTest, ShortSignaturesOnlyWhereTheyAreWanted) {
  const auto path = [this] {
    return "/8080/" + Signed(later, 8080, 'a', SignatureForm::kShort) + "/x";
  };
  EXPECT_EQ(Uri(path()), "401");
  config.short_signatures = true;
  EXPECT_EQ(Uri(path()), "/x");
  EXPECT_EQ(Uri("/8080/" + Signed(later) + "/x"), "/x");
}

TEST_F(IngressTest, GuessesAreBoundedForASandboxAndASource) {
  config.short_signatures = true;
  const auto guess = [this](int number, const std::string& peer, const std::string& ending = "a") {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(number));
    http::Request request =
        RequestFor("/" + std::string(kId) + "/8080/" + ToBase36(later) + "/" + digits + ending);
    request.peer = peer;
    return Try(request);
  };
  const auto with = [this](SignatureForm form, const std::string& peer) {
    http::Request request =
        RequestFor("/" + std::string(kId) + "/8080/" + Signed(later, 8080, 'a', form));
    request.peer = peer;
    return Try(request);
  };
  EXPECT_EQ(with(SignatureForm::kShort, "192.0.2.1:1"), "");
  // The same old URL counts as one guess, however often it is requested.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(guess(-1, "192.0.2.1:1"), "401");
  int tried = 0;
  for (int i = 0; i < 1000; ++i) {
    // Each guess comes from another port. Both forms of a signature are tried.
    tried += guess(i, "192.0.2.1:" + std::to_string(i), i % 2 ? "a" : "000a") == "401" ? 1 : 0;
  }
  EXPECT_EQ(tried, GuessLimit::kBurst - 1);
  EXPECT_EQ(guess(1000, "192.0.2.1:1"), "429");
  // A new short signature is not checked any more. Signatures that passed before still pass, and so
  // do long ones, which nobody guesses.
  EXPECT_EQ(with(SignatureForm::kShort, "192.0.2.1:1"), "");
  EXPECT_EQ(with(SignatureForm::kLong, "192.0.2.1:1"), "");
  EXPECT_EQ(Try([&] {
              http::Request request = RequestFor("/" + std::string(kId) + "/8081/" +
                                                 Signed(later, 8081, 'a', SignatureForm::kShort));
              request.peer = "192.0.2.1:1";
              return request;
            }()),
            "429");
  // Other sources have budgets of their own. A site counts as one IPv6 prefix, however many
  // addresses it uses.
  EXPECT_EQ(guess(1, "192.0.2.2:1"), "401");
  tried = 0;
  for (int i = 0; i < 1000; ++i) {
    char peer[64];
    std::snprintf(peer, sizeof peer, "[2001:db8:1:%x::%x]:1", static_cast<unsigned>(i % 99),
                  static_cast<unsigned>(i));
    tried += guess(i, peer) == "401" ? 1 : 0;
  }
  EXPECT_EQ(tried, GuessLimit::kBurst);
  EXPECT_EQ(guess(1, "[2001:db8:2::1]:1"), "401");
  // The source gets a few tries back with time.
  now_ms += 3 * GuessLimit::kMillisEach;
  tried = 0;
  for (int i = 0; i < 100; ++i) tried += guess(2000 + i, "192.0.2.1:1") == "401" ? 1 : 0;
  EXPECT_EQ(tried, 3);
}

TEST_F(IngressTest, ATokenThatIsGivenMustBeRight) {
  http::Request request = RequestFor("/" + std::string(kId) + "/8080/" + Signed(later) + "/x");
  request.headers.Add(kSecureAccessHeader, "guess");
  EXPECT_EQ(Try(request), "401");
  request.headers.Set(kSecureAccessHeader, "token");
  EXPECT_EQ(Try(request), "/x");
  request.target = "/sandboxes/" + std::string(kId) + "/proxy/8080/y";
  EXPECT_EQ(Try(request), "/y");
}

TEST_F(IngressTest, AnEmptySignatureIsNoName) {
  for (const char* tail : {"-8080-", "-8080-1", "-8080-1-"}) {
    http::Request request = RequestFor("/");
    request.headers.Add(kIngressHeader, kId + std::string(tail));
    EXPECT_EQ(Try(request), "no route") << tail;
  }
}

TEST_F(IngressTest, HeaderAndHostForms) {
  std::string name = std::string(kId) + "-8080-" + Signed(later);
  name[name.find('/')] = '-';
  http::Request request = RequestFor("/v1/sandboxes?x");
  request.headers.Add(kIngressHeader, name);
  EXPECT_EQ(Try(request), "/v1/sandboxes?x");
  request.headers.Set(kIngressHeader, std::string(kId) + "-8080");
  EXPECT_EQ(Try(request), "401");
  request.headers.Set(kIngressHeader, std::string(kId) + "-8080-abc");
  EXPECT_EQ(Try(request), "no route");
  request.headers.list.clear();
  request.headers.Set("Host", name + ".Box.Example.org:8443");
  EXPECT_EQ(Try(request), "/v1/sandboxes?x");
  request.headers.Set("Host", name + ".box.example.org.evil.com");
  EXPECT_EQ(Try(request), "no route");
  request.headers.Set("Host", name + ".localhost:8080");
  EXPECT_EQ(Try(request), "/v1/sandboxes?x");
  request.headers.Set("Host", name + ".localhost.evil.com");
  EXPECT_EQ(Try(request), "no route");
  config.domain.clear();
  request.headers.Set("Host", name + ".box.example.org");
  EXPECT_EQ(Try(request), "no route");
}

TEST(RouteSignature, Base36) {
  EXPECT_EQ(ToBase36(0), "0");
  EXPECT_EQ(ToBase36(35), "z");
  EXPECT_EQ(ToBase36(36), "10");
  EXPECT_EQ(ToBase36(UINT64_MAX), "3w5e11264sgsf");
  for (uint64_t number : {uint64_t{0}, uint64_t{1700000000}, UINT64_MAX}) {
    EXPECT_EQ(FromBase36(ToBase36(number)), number);
  }
  for (const char* text : {"", "01", "A", "-1", "3w5e11264sgsg", "zzzzzzzzzzzzzz", "1 "}) {
    EXPECT_FALSE(FromBase36(text)) << text;
  }
}

TEST(RouteSignature, OfAllThatItCovers) {
  const RouteKey key{'k', "0123456789"};
  const std::string signature = SignRoute(key, SignatureForm::kShort, kId, 8080, "s44we8");
  // Made with another implementation (Python's hashlib).
  EXPECT_EQ(signature, "7504b615k");
  EXPECT_TRUE(VerifyRoute({key}, kId, 8080, "s44we8", signature));
  EXPECT_FALSE(VerifyRoute({key}, kId, 8081, "s44we8", signature));
  EXPECT_FALSE(VerifyRoute({key}, kId, 8080, "s44we9", signature));
  EXPECT_FALSE(VerifyRoute({{'k', "0123456788"}}, kId, 8080, "s44we8", signature));
  EXPECT_FALSE(VerifyRoute({{'l', "0123456789"}}, kId, 8080, "s44we8", signature));
  EXPECT_FALSE(VerifyRoute({}, kId, 8080, "s44we8", signature));
  EXPECT_EQ(SignRoute(key, SignatureForm::kLong, kId, 8080, "s44we8"), "ci1qbbxeu2gk");
  EXPECT_TRUE(VerifyRoute({key}, kId, 8080, "s44we8", "ci1qbbxeu2gk"));
  // A prefix of a long signature is not a short one, nor is any length in between.
  EXPECT_FALSE(VerifyRoute({key}, kId, 8080, "s44we8", std::string("ci1qbbxeu2gk").substr(3)));
}

}  // namespace
}  // namespace atl::api
