// Requests into sandboxes on a daemon with tenants: forms of routes × credentials × owners.
#include "runtime/api/ingress/proxy_judge.h"

#include <map>

#include "runtime/api/ingress/auth.h"
#include "runtime/api/ingress/egress_api.h"
#include "runtime/api/ingress/endpoint.h"
#include "runtime/api/ingress/proxy.h"
#include "runtime/base/base64.h"
#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

using tenants::Role;

constexpr char kUnknown[] = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
constexpr char kFormerKey[] = "the-key-before-there-were-tenants";

class JudgeTest : public ApiTest {
 protected:
  JudgeTest() {
    ingress.egress_secret = "secret";
    ingress.domain = "boxes.example";
    ingress.keys = {{'k', "route secret"}};
    ingress.active_key = 'k';
    ingress.former_api_key = kFormerKey;
    for (const Role role : tenants::kRoles) {
      holders[std::string("red-") + tenants::RoleName(role)] = {.tenant = "red", .role = role};
      holders[std::string("blue-") + tenants::RoleName(role)] = {.tenant = "blue", .role = role};
      holders[std::string("host-") + tenants::RoleName(role)] = {.role = role};
    }
    for (auto& [key_id, identity] : holders) identity.key_id = key_id;
    judge = std::make_unique<ProxyJudge>(
        ingress, sandboxes->registry, &guesses,
        KeyLookup{
            [this](const std::string& id) { return HolderOf(id); },
            [this](const std::string& tenant) { return tenant == "red" || has_blue; },
            [this](std::string_view text) { return HolderOf(std::string(text)).has_value(); }});
    red = Owned("red");
    blue = Owned("blue");
  }

  std::optional<tenants::Identity> HolderOf(const std::string& key_id) const {
    const auto found = holders.find(key_id);
    return found == holders.end() ? std::nullopt : std::optional(found->second);
  }
  std::string Owned(const std::string& tenant) {
    const std::string id = Create();
    sandboxes->registry.Look(id)->tenant = tenant;
    return id;
  }

  struct Asked {
    std::string method = "GET";
    std::string target;
    std::vector<http::Header> headers;
  };
  std::shared_ptr<FakeExchange> Ask(const Asked& asked) {
    auto exchange = std::make_shared<FakeExchange>();
    exchange->head.method = asked.method;
    exchange->head.target = asked.target;
    exchange->head.headers.list = asked.headers;
    if (!exchange->head.headers.Has("Host")) exchange->head.headers.Add("Host", "atoll.example");
    exchange->head.headers.Add("X-Request-ID", "fixed");
    exchange->head.peer = "192.0.2.1:4";
    const auto route = FindRoute(exchange->head, ingress);
    EXPECT_TRUE(route) << asked.target;
    // A key is its own id here.
    const std::function<void(const Call&, std::function<void(Parsed<tenants::Identity>)>)>
        identify = [this](const Call& call, const auto& done) {
          if (auto holder = HolderOf(std::string(KeyOf(call.request())))) return done(*holder);
          done(Refuse(401, "INVALID_API_KEY", "wrong key"));
        };
    static const std::vector<std::string> kNoDirectories;
    Proxy(Call(exchange, kNoDirectories), *route, *sandboxes, network,
          {.ingress = ingress,
           .api_key = {},
           .guesses = &guesses,
           .refusals = &refusals,
           .judge = judge.get(),
           .admin_entries = &entries,
           .identify = &identify});
    loop.Run();
    return exchange;
  }
  int StatusOf(const Asked& asked) {
    const auto exchange = Ask(asked);
    return exchange->upstream ? 200 : exchange->response ? exchange->response->status : 0;
  }
  // Returns the same request in every form of route.
  static std::vector<Asked> Forms(const std::string& id, int port, const std::string& rest,
                                  const std::vector<http::Header>& headers) {
    const std::string name = id + "-" + std::to_string(port);
    const std::string path = "/" + std::to_string(port) + rest;
    const auto with = [&](const char* header, const std::string& value) {
      std::vector<http::Header> all = headers;
      all.push_back({header, value});
      return all;
    };
    return {{"GET", "/sandboxes/" + id + "/proxy" + path, headers},
            {"GET", "/v1/sandboxes/" + id + "/proxy" + path, headers},
            {"GET", "/" + id + path, headers},
            {"GET", rest, with(kIngressHeader, name)},
            {"GET", rest, with("Host", name + ".boxes.example")},
            {"GET", rest, with("Host", name + ".localhost:8080")}};
  }
  std::string Execd(const std::string& id, const std::string& rest = "/command") {
    return "/sandboxes/" + id + "/proxy/44772" + rest;
  }

  IngressConfig ingress;
  GuessLimit guesses;
  Refusals refusals{"secret", nullptr};
  AdminEntries entries{*history};
  std::map<std::string, tenants::Identity> holders;
  bool has_blue = true;
  std::unique_ptr<ProxyJudge> judge;
  std::string red, blue;
};

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST_F(JudgeTest, ASandboxOfAnotherTenantIsAnUnknownId) {
  size_t compared = 0;
  for (const int port : {44772, 18080, 8000}) {
    for (const char* rest : {"/", "/command", "/files/download?path=/x", "/policy", "/%63ommand",
                             "/proxy/9000/x", "/a%2Fb"}) {
      for (const Role role : tenants::kRoles) {
        const std::string key = std::string("red-") + tenants::RoleName(role);
        // Admins of a tenant enter other sandboxes with a reason, and are asked for it.
        if (role == Role::kAdmin) continue;
        // Operators and auditors see policies of all.
        if (port == 18080 && (role == Role::kOperator || role == Role::kAuditor)) continue;
        for (const char* method : {"GET", "POST", "HEAD", "OPTIONS", "DELETE"}) {
          for (const std::vector<http::Header>& headers :
               {std::vector<http::Header>{{kApiKeyHeader, key}},
                {{"Authorization", "Bearer " + key}},
                {},
                {{kApiKeyHeader, "no key"}},
                {{kExecdTokenHeader, judge->tokens().Make(key, red)}},
                {{kSecureAccessHeader, "wrong"}},
                {{"Upgrade", "websocket"}, {"Connection", "Upgrade"}, {kApiKeyHeader, key}}}) {
            const auto foreign = Forms(blue, port, rest, headers);
            const auto unknown = Forms(kUnknown, port, rest, headers);
            for (size_t form = 0; form < foreign.size(); ++form) {
              Asked one = foreign[form], other = unknown[form];
              one.method = other.method = method;
              const auto told = Ask(one), expected = Ask(other);
              ASSERT_TRUE(told->response && expected->response) << one.target << " " << key;
              EXPECT_FALSE(told->upstream);
              EXPECT_EQ(told->response->status, expected->response->status);
              EXPECT_EQ(Replaced(told->response->body, blue, kUnknown), expected->response->body);
              EXPECT_EQ(told->response->headers.list.size(),
                        expected->response->headers.list.size());
              ++compared;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(compared, (4U + 2U + 4U) * 7 * 5 * 7 * 6);
}

TEST_F(JudgeTest, RolesDecideInEveryForm) {
  const std::map<Role, int> expected = {{Role::kViewer, 403},
                                        {Role::kDeveloper, 200},
                                        {Role::kOperator, 403},
                                        {Role::kAuditor, 403},
                                        {Role::kAdmin, 200}};
  for (const int port : {44772, 8000}) {
    for (const auto& [role, status] : expected) {
      const std::string key = std::string("red-") + tenants::RoleName(role);
      for (const http::Header& shown :
           {http::Header{kApiKeyHeader, key}, http::Header{"Authorization", "Bearer " + key},
            http::Header{kExecdTokenHeader, judge->tokens().Make(key, red)},
            http::Header{kSecureAccessHeader, judge->tokens().Make(key, red)}}) {
        for (const Asked& asked : Forms(red, port, "/ping", {shown})) {
          EXPECT_EQ(StatusOf(asked), status) << asked.target << " " << shown.value;
        }
      }
    }
    for (const Asked& asked : Forms(red, port, "/ping", {})) {
      const auto refused = Ask(asked);
      ASSERT_TRUE(refused->response);
      EXPECT_EQ(CodeOf(refused), "MISSING_API_KEY");
    }
  }
  const auto needs = Ask({"GET", Execd(red), {{kApiKeyHeader, "red-viewer"}}});
  EXPECT_EQ(json::parse(needs->response->body).at("needs"), "developer");
}

TEST_F(JudgeTest, TheRequestIsTheKeysAndCarriesNoCredentialOn) {
  const std::string token = judge->tokens().Make("red-developer", red);
  for (const http::Header& shown :
       {http::Header{kApiKeyHeader, "red-developer"}, http::Header{kExecdTokenHeader, token},
        http::Header{kSecureAccessHeader, token}}) {
    for (const int port : {44772, 8000}) {
      for (const Asked& asked : Forms(red, port, "/x", {shown})) {
        const auto entered = Ask(asked);
        ASSERT_TRUE(entered->upstream) << asked.target;
        EXPECT_EQ(entered->authority, "red-developer\ndeveloper\nred");
        const auto& dropped = entered->upstream->drop_headers;
        const auto& set = entered->upstream->set_headers;
        const bool kept = std::find(dropped.begin(), dropped.end(), shown.name) == dropped.end() &&
                          std::none_of(set.begin(), set.end(), [&](const http::Header& header) {
                            return header.name == shown.name;
                          });
        EXPECT_FALSE(kept) << shown.name;
        for (const http::Header& header : set)
          EXPECT_EQ(header.value.find(token), std::string::npos);
      }
    }
  }
  // A server in the sandbox gets the bearer token that is meant for it, and never a key.
  std::vector<http::Header> both = {{kSecureAccessHeader, token},
                                    {"Authorization", "Bearer of-the-app"},
                                    {"Host", red + "-8000.localhost"}};
  auto entered = Ask({"GET", "/x", both});
  ASSERT_TRUE(entered->upstream);
  const auto drops = [&entered](const std::string& name) {
    const auto& all = entered->upstream->drop_headers;
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  EXPECT_FALSE(drops("Authorization"));
  holders["atl_key"] = {.key_id = "atl_key", .tenant = "red", .role = Role::kDeveloper};
  both[1].value = "Bearer atl_key";
  entered = Ask({"GET", "/x", both});
  ASSERT_TRUE(entered->upstream);
  EXPECT_TRUE(drops("Authorization"));
  both[1].value = "Bearer atl_wrong";
  EXPECT_EQ(StatusOf({"GET", "/x", both}), 401);
  EXPECT_EQ(StatusOf({"GET",
                      "/x?k=red-developer-x",
                      {{kApiKeyHeader, "red-developer"}, {"Host", red + "-8000.localhost"}}}),
            200);
}

TEST_F(JudgeTest, NoCredentialEntersBesideTheTokenThatAdmits) {
  const std::string token = judge->tokens().Make("red-developer", red);
  const std::string key = "atl_abcdefg2_" + std::string(43, 'x');
  const auto ask = [&](const std::string& rest, const http::Header& beside) {
    return Ask(
        {"GET", rest, {{kSecureAccessHeader, token}, {"Host", red + "-8000.localhost"}, beside}});
  };
  for (const auto& [header, dropped] : std::vector<std::pair<http::Header, bool>>{
           {{"Authorization", "Bearer blue-viewer"}, true},
           {{"Authorization", "Bearer of-the-app"}, false},
           {{"Authorization", "Basic " + EncodeBase64("me:" + key)}, true},
           {{"Authorization", "Basic " + EncodeBase64("me:secret")}, false},
           {{"Cookie", "a=b; k=" + key}, true},
           {{"Cookie", "k=" + token}, true},
           {{"Cookie", "a=b"}, false},
           {{"X-Of-The-App", token}, true}}) {
    const auto entered = ask("/x", header);
    ASSERT_TRUE(entered->upstream) << header.value;
    const auto& drops = entered->upstream->drop_headers;
    EXPECT_EQ(std::find(drops.begin(), drops.end(), header.name) != drops.end(), dropped)
        << header.name << ": " << header.value;
  }
  const std::vector<std::string> told = {"/x?k=" + key, "/" + token + "/x",
                                         "/x?k=" + Replaced(key, "_", "%5F")};
  for (const std::string& rest : told) {
    const auto refused = ask(rest, {"Accept", "*/*"});
    ASSERT_TRUE(refused->response) << rest;
    EXPECT_EQ(refused->response->status, 400) << rest;
  }
}

TEST_F(JudgeTest, ATokenEndsWithItsKeyAndFollowsItsRole) {
  const auto with = [this](const std::string& token) {
    return StatusOf({"POST", Execd(red), {{kExecdTokenHeader, token}}});
  };
  const std::string token = judge->tokens().Make("red-developer", red);
  EXPECT_EQ(with(token), 200);
  EXPECT_EQ(with(judge->tokens().Make("red-developer", blue)), 401);
  EXPECT_EQ(with(judge->tokens().Make("nobody", red)), 401);
  EXPECT_EQ(with(token + "x"), 401);
  EXPECT_EQ(with(judge->tokens().Make("blue-developer", red)), 404);
  holders["red-developer"].role = Role::kViewer;
  EXPECT_EQ(with(token), 403);
  holders["red-developer"].tenant = "blue";
  holders["red-developer"].role = Role::kDeveloper;
  EXPECT_EQ(with(token), 404);
  holders.erase("red-developer");
  EXPECT_EQ(with(token), 401);
  // Two tokens of different keys say two things.
  EXPECT_EQ(StatusOf({"POST",
                      Execd(red),
                      {{kExecdTokenHeader, judge->tokens().Make("red-admin", red)},
                       {kSecureAccessHeader, judge->tokens().Make("red-viewer", red)}}}),
            401);
}

TEST_F(JudgeTest, WhatIsOpenStandsAsLongAsItsKeyHasItsRole) {
  const KeyLookup keys{[this](const std::string& id) { return HolderOf(id); },
                       [this](const std::string& tenant) { return tenant == "red" || has_blue; }};
  const std::string authority =
      AuthorityOf({.tenant = "blue", .key_id = "blue-developer", .role = Role::kDeveloper});
  EXPECT_TRUE(Stands(authority, keys));
  holders["blue-developer"].role = Role::kViewer;
  EXPECT_FALSE(Stands(authority, keys));
  holders["blue-developer"] = {
      .key_id = "blue-developer", .tenant = "red", .role = Role::kDeveloper};
  EXPECT_FALSE(Stands(authority, keys));
  holders.erase("blue-developer");
  EXPECT_FALSE(Stands(authority, keys));
  const std::string nobody = AuthorityOf({.tenant = "blue", .role = Role::kDeveloper});
  EXPECT_TRUE(Stands(nobody, keys));
  has_blue = false;
  EXPECT_FALSE(Stands(nobody, keys));
}

TEST_F(JudgeTest, ASignedRouteOpensAServerAndNothingOfAtoll) {
  const std::string ends = "19xtf1tr";
  const auto signed_route = [&](const std::string& id, int port) {
    return id + "-" + std::to_string(port) + "-" + ends + "-" +
           SignRoute(ingress.keys[0], SignatureForm::kLong, id, port, ends);
  };
  const auto by = [&](const std::string& name) {
    return StatusOf({"GET", "/x", {{kIngressHeader, name}}});
  };
  EXPECT_EQ(by(signed_route(red, 8000)), 200);
  EXPECT_EQ(by(signed_route(red, 44772)), 401);
  EXPECT_EQ(by(signed_route(red, 18080)), 401);
  EXPECT_EQ(by(red + "-8000-" + ends + "-00000000000k"), 401);
  EXPECT_EQ(StatusOf({"GET",
                      "/" + red + "/8000/" + ends + "/" +
                          SignRoute(ingress.keys[0], SignatureForm::kLong, red, 8000, ends) + "/x",
                      {}}),
            200);
  const std::string old = "1";
  EXPECT_EQ(by(red + "-8000-" + old + "-" +
               SignRoute(ingress.keys[0], SignatureForm::kLong, red, 8000, old)),
            401);
  EXPECT_EQ(by(signed_route(blue, 8000)), 200);
  has_blue = false;
  EXPECT_EQ(by(signed_route(blue, 8000)), 401) << "its tenant is gone";
}

TEST_F(JudgeTest, WhoeverMayNotReadAPortGetsNoSignedRouteToIt) {
  const auto may = [](Role role, const std::vector<std::string>& routes, int port, bool is_signed) {
    tenants::Caller caller{.tenant = "red", .key_id = "k", .role = role};
    if (!routes.empty()) {
      caller.narrowing =
          std::make_shared<const tenants::Narrowing>(tenants::Narrowing{.routes = routes});
    }
    EndpointRequest wanted{.port = port};
    if (is_signed) wanted.expires = 4'000'000'000;
    return MaySign(wanted, caller).has_value();
  };
  const std::string endpoints = "GET /sandboxes/{sandbox_id}/endpoints/*";
  EXPECT_TRUE(may(Role::kDeveloper, {}, 8000, true));
  EXPECT_FALSE(may(Role::kViewer, {}, 8000, true));
  EXPECT_FALSE(may(Role::kDeveloper, {endpoints}, 8000, true));
  EXPECT_TRUE(may(Role::kDeveloper, {endpoints}, 8000, false));
  EXPECT_TRUE(may(Role::kDeveloper, {endpoints, "* /proxy/{port}"}, 8000, true));
  EXPECT_TRUE(may(Role::kDeveloper, {endpoints}, kExecdPort, true));
}

TEST_F(JudgeTest, TokensFromBeforeTheTenantsStayGood) {
  sandbox::Sandbox& box = *sandboxes->registry.Look(red);
  const auto with = [this](int port, std::vector<http::Header> headers) {
    return StatusOf({"GET", "/sandboxes/" + red + "/proxy/" + std::to_string(port) + "/policy",
                     std::move(headers)});
  };
  const std::string token = TokenFor(kFormerKey, box.access_token);
  EXPECT_EQ(with(44772, {{kExecdTokenHeader, token}}), 200);
  EXPECT_EQ(with(44772, {{kExecdTokenHeader, box.access_token}}), 401);
  EXPECT_EQ(with(8000, {{kExecdTokenHeader, token}}), 401);
  EXPECT_EQ(with(44772, {{kExecdTokenHeader, "wrong"}, {kApiKeyHeader, "red-developer"}}), 401);
  EXPECT_EQ(with(44772, {{kExecdTokenHeader, token}, {kApiKeyHeader, "red-developer"}}), 200);
  EXPECT_EQ(with(18080, {{kEgressTokenHeader, EgressToken("secret", kFormerKey, red)}}), 200);
  EXPECT_EQ(with(18080, {{kEgressTokenHeader, EgressToken("secret", "", red)}}), 401);
  box.secure_token = "secure";
  EXPECT_EQ(with(44772, {{kExecdTokenHeader, token}}), 401);
  EXPECT_EQ(with(8000, {{kSecureAccessHeader, TokenFor(kFormerKey, "secure")}}), 200);
  ingress.former_api_key.clear();
  EXPECT_EQ(with(8000, {{kSecureAccessHeader, "secure"}}), 401);
}

TEST_F(JudgeTest, AnAdminEntersWithAReasonThatTheOwnerReads) {
  const auto enter = [this](const std::string& query, const std::string& key = "host-admin") {
    return Ask({"GET", Execd(red, "/files/download" + query), {{kApiKeyHeader, key}}});
  };
  const auto events = [this] {
    std::vector<std::string> told;
    const auto all = history->Find(red);
    for (const sandbox::HistoryEvent& event : *all) {
      if (event.reason == "ADMIN_ENTERED") told.push_back(event.message);
    }
    return told;
  };
  for (const char* query : {"", "?path=/x", "?reason=short", "?reason=", "?Reason=long+enough",
                            "?reason=++++++++++++", "?reason=++++short%20%09%0a++"}) {
    const auto refused = enter(query);
    ASSERT_TRUE(refused->response) << query;
    EXPECT_EQ(refused->response->status, 403);
    EXPECT_EQ(json::parse(refused->response->body).at("needs"), "reason");
  }
  EXPECT_EQ(StatusOf({"GET", Execd(kUnknown), {{kApiKeyHeader, "host-admin"}}}), 404);
  EXPECT_TRUE(events().empty());
  const auto entered = enter("?a=%26&reason=outage%20of%20web&path=/x&%72eason=outage+of+web&b");
  ASSERT_TRUE(entered->upstream);
  EXPECT_EQ(entered->upstream->target, "/files/download?a=%26&path=/x&b");
  ASSERT_TRUE(enter("?reason=outage+of+web")->upstream);
  EXPECT_EQ(enter("?reason=outage+of+web")->upstream->target, "/files/download");
  ASSERT_EQ(events().size(), 1U) << "one event in ten minutes";
  EXPECT_EQ(events()[0], "an admin (key host-admin) entered the sandbox: outage of web");
  // It is a tenant's admin, too, who enters another tenant's sandbox.
  EXPECT_EQ(enter("", "blue-admin")->response->status, 403);
  EXPECT_TRUE(enter("?reason=outage+of+web", "blue-admin")->upstream);
  EXPECT_EQ(events().size(), 2U);
  // Its own sandbox gets the parameter, and nobody is told.
  const auto own = enter("?reason=its+own+parameter", "red-admin");
  ASSERT_TRUE(own->upstream);
  EXPECT_EQ(own->upstream->target, "/files/download?reason=its+own+parameter");
  EXPECT_EQ(events().size(), 2U);
  for (const char* key : {"host-operator", "host-auditor", "blue-operator", "blue-developer"}) {
    EXPECT_FALSE(enter("?reason=long+enough", key)->upstream) << key;
  }
}

TEST_F(JudgeTest, ARefusedRequestWakesNoSandboxAndMovesNoDeadline) {
  sandbox::Sandbox& box = *sandboxes->registry.Look(red);
  box.state = sandbox::State::kPaused;
  box.reason = "IDLE_PAUSED";
  for (const std::vector<http::Header>& headers : {std::vector<http::Header>{},
                                                   {{kApiKeyHeader, "blue-developer"}},
                                                   {{kApiKeyHeader, "red-viewer"}},
                                                   {{kApiKeyHeader, "host-admin"}},
                                                   {{kExecdTokenHeader, "wrong"}}}) {
    for (const int port : {44772, 8000}) {
      for (const Asked& asked : Forms(red, port, "/ping", headers)) EXPECT_NE(StatusOf(asked), 200);
    }
  }
  EXPECT_EQ(box.state, sandbox::State::kPaused);
}

TEST_F(JudgeTest, DenialsAreCountedByAction) {
  Ask({"POST", Execd(red), {{kApiKeyHeader, "red-viewer"}}});
  Ask({"GET", Execd(red, "/ping"), {{kApiKeyHeader, "red-viewer"}}});
  Ask({"GET", "/sandboxes/" + red + "/proxy/8000/", {{kApiKeyHeader, "host-operator"}}});
  Ask({"GET", Execd(red, "/ping"), {}});
  MetricSet metrics;
  refusals.AddMetrics(&metrics);
  const std::string text = PrometheusText(metrics);
  for (const char* line : {"atoll_authz_denied_total{action=\"exec.command\"} 1\n",
                           "atoll_authz_denied_total{action=\"read\"} 1\n",
                           "atoll_authz_denied_total{action=\"port.open\"} 1\n",
                           "atoll_auth_failures_total{reason=\"sandbox_token\"} 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace atl::api
