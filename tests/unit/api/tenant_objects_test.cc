// Two tenants in front of one API. What one of them has, the other one cannot tell from what does
// not exist: the same status and the same bytes, but for the id that the request named.
#include <algorithm>

#include "runtime/api/gate/error_map.h"
#include "runtime/wire/plan.h"
#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

const tenants::Caller kOfRed{.tenant = "red", .role = tenants::Role::kDeveloper};
const tenants::Caller kOfBlue{.tenant = "blue", .role = tenants::Role::kDeveloper};
const tenants::Caller kOfAll{.role = tenants::Role::kAdmin, .sees_all = true};

std::string Replaced(std::string text, const std::string& what) {
  for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), "*");
  return text;
}

std::string Decoded(std::string text) {
  if (const size_t at = text.find("%2F"); at != std::string::npos) text.replace(at, 3, "/");
  return text;
}

class TenantObjectsTest : public ApiTest {
 protected:
  TenantObjectsTest() {
    keys_of_tenants = std::make_unique<tenants::Directory>(tenants::Directory::Parts{
        loop, clock, tenants, std::move(*tenants::KeyStore::Open(":memory:", loop, clock)), nullptr,
        "secret"});
    Serve({.endpoint = {.address = "127.0.0.1:8080"}});
  }
  // Sends a request that has been authorised as that caller's.
  std::shared_ptr<FakeExchange> As(const tenants::Caller& caller, const std::string& method,
                                   const std::string& target, const std::string& body = "",
                                   std::vector<http::Header> headers = {}) {
    auto exchange = std::make_shared<FakeExchange>();
    exchange->head.method = method;
    exchange->head.target = target;
    exchange->head.headers.list = std::move(headers);
    exchange->head.headers.Add("Host", "atoll.example:81");
    exchange->head.peer = "127.0.0.1:4";
    exchange->body = body;
    Router::Match match = api->router().Find(method, exchange->head.path());
    EXPECT_NE(match.handle, nullptr) << method << " " << target;
    Call call(exchange, directories);
    call.SetCaller(caller);
    call.args = std::move(match.args);
    (*match.handle)(std::move(call));
    loop.Run();
    // The end of a pipe.
    if (!exchange->response) loop.Poll();
    loop.Run();
    return exchange;
  }
  int StatusAs(const tenants::Caller& caller, const std::string& method, const std::string& target,
               const std::string& body = "") {
    const auto exchange = As(caller, method, target, body);
    return exchange->response ? exchange->response->status : 0;
  }
  json GetAs(const tenants::Caller& caller, const std::string& target) {
    const auto exchange = As(caller, "GET", target);
    EXPECT_EQ(exchange->response->status, 200) << target << exchange->response->body;
    return json::parse(exchange->response->body);
  }
  static json Body(json extra = json::object()) {
    json body = {{"image", {{"uri", "busybox"}}},
                 {"entrypoint", {"tail", "-f", "/dev/null"}},
                 {"resourceLimits", json::object()}};
    body.update(extra);
    return body;
  }
  std::string CreateAs(const tenants::Caller& caller, json extra = json::object(),
                       std::vector<http::Header> headers = {}) {
    const auto exchange =
        As(caller, "POST", "/v1/sandboxes", Body(std::move(extra)).dump(), std::move(headers));
    EXPECT_FALSE(exchange->response) << exchange->response->body;
    if (exchange->response) return "";
    spawner.AnswerBuild();
    EXPECT_TRUE(exchange->response && exchange->response->status == 202);
    return json::parse(exchange->response->body).at("id");
  }
  std::string SnapshotAs(const tenants::Caller& caller, const std::string& id) {
    const auto taken = As(caller, "POST", "/v1/sandboxes/" + id + "/snapshots");
    EXPECT_EQ(taken->response->status, 202) << taken->response->body;
    spawner.AnswerCopy();
    spawner.AnswerPublish();
    loop.Run();
    return json::parse(taken->response->body).at("id");
  }

  // Expects that `caller` cannot tell `hidden` from `unknown`. `target` has "@" for them.
  void ExpectUnknown(const tenants::Caller& caller, const std::string& method,
                     const std::string& target, const std::string& hidden,
                     const std::string& unknown, const std::string& body = "") {
    const auto with = [](const std::string& text, const std::string& id) {
      const size_t at = text.find('@');
      return at == std::string::npos ? text : text.substr(0, at) + id + text.substr(at + 1);
    };
    const auto ask = [&](const std::string& id) {
      return As(caller, method, with(target, id), with(body, id));
    };
    const auto other = ask(hidden), none = ask(unknown);
    ASSERT_TRUE(other->response && none->response) << method << " " << target;
    EXPECT_GE(other->response->status, 400) << method << " " << target;
    EXPECT_EQ(other->response->status, none->response->status) << method << " " << target;
    EXPECT_EQ(Replaced(Replaced(other->response->body, hidden), Decoded(hidden)),
              Replaced(Replaced(none->response->body, unknown), Decoded(unknown)))
        << method << " " << target;
  }

  const std::vector<std::string> directories;
  static constexpr char kUnknown[] = "00000000-0000-4000-8000-00000000ffff";
};

TEST_F(TenantObjectsTest, ASandboxOfAnotherIsUnknown) {
  const std::string id = CreateAs(kOfRed);
  const std::string soon = R"({"expiresAt":"2099-01-01T00:00:00Z"})";
  const std::string policy = R"({"defaultAction":"deny"})";
  const struct {
    const char *method, *below;
    std::string body;
  } kRoutes[] = {
      {"GET", "", ""},
      {"DELETE", "", ""},
      {"POST", "/renew-expiration", soon},
      {"POST", "/pause", ""},
      {"POST", "/resume", ""},
      {"PATCH", "/metadata", R"({"a":"b"})"},
      {"POST", "/snapshots", ""},
      {"POST", "/fork", ""},
      {"POST", "/rollback", R"({"snapshotId":"x"})"},
      {"GET", "/diff", ""},
      {"GET", "/disk", ""},
      {"GET", "/endpoints/8080", ""},
      {"GET", "/network", ""},
      {"GET", "/networkpolicy", ""},
      {"PUT", "/networkpolicy", policy},
      {"PATCH", "/networkpolicy", "[]"},
      {"DELETE", "/networkpolicy", "[]"},
      {"GET", "/diagnostics/logs", ""},
      {"GET", "/diagnostics/events", ""},
      {"GET", "/diagnostics/inspect", ""},
      {"GET", "/diagnostics/summary", ""},
  };
  for (const auto& route : kRoutes) {
    ExpectUnknown(kOfBlue, route.method, std::string("/v1/sandboxes/@") + route.below, id, kUnknown,
                  route.body);
  }
  EXPECT_EQ(StatusAs(kOfRed, "GET", "/v1/sandboxes/" + id), 200) << "it is still there";
  EXPECT_EQ(GetAs(kOfBlue, "/v1/sandboxes").at("pagination").at("totalItems"), 0);
  EXPECT_EQ(GetAs(kOfRed, "/v1/sandboxes").at("pagination").at("totalItems"), 1);
  EXPECT_EQ(GetAs(kOfAll, "/v1/sandboxes").at("pagination").at("totalItems"), 1);
}

TEST_F(TenantObjectsTest, EventsAndRemainsAreTheOwners) {
  const std::string id = CreateAs(kOfRed);
  EXPECT_EQ(StatusAs(kOfRed, "DELETE", "/v1/sandboxes/" + id), 204);
  spawner.AnswerDestroy();
  loop.Run();
  const json none = GetAs(kOfBlue, "/v1/events?after=0");
  EXPECT_TRUE(none.at("items").empty());
  EXPECT_EQ(none.at("last"), 0) << "not even how many events there were";
  EXPECT_FALSE(GetAs(kOfRed, "/v1/events?after=0").at("items").empty());
  EXPECT_FALSE(GetAs(kOfAll, "/v1/events?after=0").at("items").empty());
  EXPECT_TRUE(sandboxes->registry.IsGone(kOfRed, id));
  EXPECT_FALSE(sandboxes->registry.IsGone(kOfBlue, id));
  EXPECT_FALSE(sandboxes->registry.IsGone(kCaller, id));
  EXPECT_EQ(StatusAs(kOfRed, "GET", "/v1/history/" + id), 200);
  EXPECT_EQ(StatusAs(kOfBlue, "GET", "/v1/history/" + id), 404);
  EXPECT_EQ(GetAs(kOfRed, "/v1/history").at("items").size(), 1U);
  EXPECT_TRUE(GetAs(kOfBlue, "/v1/history").at("items").empty());
}

TEST_F(TenantObjectsTest, APageOfTheHistoryReadsFewBytes) {
  // Such records are from before the names were bounded.
  sandbox::Sandbox old;
  old.tenant = "red";
  old.state = sandbox::State::kTerminated;
  for (int i = 0; i < 5000; ++i) old.spec.env[std::to_string(i) + std::string(95, 'N')];
  for (int i = 0; i < 10; ++i) {
    old.id = "old" + std::to_string(i);
    ASSERT_TRUE(sandboxes->departures.store().Keep(old, 1000 + i, ""));
  }
  std::vector<std::string> found;
  std::string cursor;
  size_t pages = 0;
  for (; pages < 20; ++pages) {
    const json page = GetAs(kOfRed, "/v1/history?limit=200" + cursor);
    EXPECT_LE(page.at("items").size(), 1U) << "each record is half a megabyte";
    for (const json& item : page.at("items")) found.push_back(item.at("id"));
    if (!page.contains("next")) break;
    cursor = "&cursor=" + page.at("next").get<std::string>();
  }
  EXPECT_EQ(found.size(), 10U);
  EXPECT_EQ(found.front(), "old9");
  EXPECT_EQ(found.back(), "old0");
  // Records that do not fit the filter count as well.
  const json none = GetAs(kOfRed, "/v1/history?state=failed");
  EXPECT_TRUE(none.at("items").empty());
  EXPECT_TRUE(none.contains("next"));
}

TEST_F(TenantObjectsTest, KeysAndNamesAreNotShared) {
  const std::vector<http::Header> key = {{"Idempotency-Key", "k"}};
  const json named = {{"metadata", {{"name", "web"}}}, {"extensions", {{"uniqueName", "true"}}}};
  const std::string red = CreateAs(kOfRed, named, key);
  // Neither the key, with another request, nor the name is taken.
  json other = named;
  other["timeout"] = 60;
  const std::string blue = CreateAs(kOfBlue, other, key);
  EXPECT_NE(red, blue);
  const auto again = As(kOfBlue, "POST", "/v1/sandboxes", Body(other).dump(), key);
  ASSERT_TRUE(again->response);
  EXPECT_EQ(json::parse(again->response->body).at("id"), blue);
  const auto taken = As(kOfRed, "POST", "/v1/sandboxes", Body(named).dump());
  EXPECT_EQ(taken->response->status, 409);
}

TEST_F(TenantObjectsTest, ASnapshotOfAnotherIsUnknown) {
  const std::string red = CreateAs(kOfRed), blue = CreateAs(kOfBlue);
  const std::string id = SnapshotAs(kOfRed, red);
  for (const char* below : {"", "?archive=oci", "/disk"}) {
    ExpectUnknown(kOfBlue, "GET", std::string("/v1/snapshots/@") + below, id, kUnknown);
  }
  ExpectUnknown(kOfBlue, "DELETE", "/v1/snapshots/@", id, kUnknown);
  json restore = Body({{"snapshotId", "@"}});
  restore.erase("image");
  ExpectUnknown(kOfBlue, "POST", "/v1/sandboxes", id, kUnknown, restore.dump());
  ExpectUnknown(kOfBlue, "POST", "/v1/sandboxes/" + blue + "/rollback", id, kUnknown,
                R"({"snapshotId":"@"})");
  ExpectUnknown(kOfBlue, "GET", "/v1/sandboxes/" + blue + "/diff?against=@", id, kUnknown);
  ExpectUnknown(kOfBlue, "POST", "/v1/images/commit?name=mine&snapshot=@", id, kUnknown, "{}");
  EXPECT_EQ(GetAs(kOfBlue, "/v1/snapshots").at("pagination").at("totalItems"), 0);
  EXPECT_EQ(GetAs(kOfRed, "/v1/snapshots").at("pagination").at("totalItems"), 1);
  EXPECT_EQ(GetAs(kOfAll, "/v1/snapshots").at("items").at(0).at("tenant"), "red");
  // The image tells each tenant of its own users only.
  EXPECT_EQ(GetAs(kOfBlue, "/v1/images/busybox").at("snapshots"), json::array());
  EXPECT_EQ(GetAs(kOfBlue, "/v1/images/busybox").at("sandboxes"), json({blue}));
  EXPECT_EQ(GetAs(kOfRed, "/v1/images/busybox").at("snapshots"), json({id}));
  // A snapshot that an administrator takes of a tenant's sandbox is the tenant's.
  SnapshotAs(kOfAll, red);
  EXPECT_EQ(GetAs(kOfRed, "/v1/snapshots").at("pagination").at("totalItems"), 2);
}

TEST_F(TenantObjectsTest, APoolOfAnotherIsUnknown) {
  const auto described = [](const std::string& name) {
    return json({{"name", name},
                 {"image", {{"uri", "busybox"}}},
                 {"capacitySpec",
                  {{"bufferMin", 1}, {"bufferMax", 1}, {"poolMin", 0}, {"poolMax", 10}}}})
        .dump();
  };
  ASSERT_EQ(StatusAs(kOfRed, "POST", "/v1/pools", described("warm")), 201);
  loop.Pass(50'000);
  const auto parked = spawner.AnswerBuild();
  const std::string member = parked.id;
  loop.Run();
  const std::string resize =
      R"({"capacitySpec":{"bufferMin":1,"bufferMax":1,"poolMin":0,"poolMax":10}})";
  for (const tenants::Caller& caller : {kOfBlue, kCaller}) {
    ExpectUnknown(caller, "GET", "/v1/pools/@", "warm", "none");
    ExpectUnknown(caller, "PUT", "/v1/pools/@", "warm", "none", resize);
    ExpectUnknown(caller, "DELETE", "/v1/pools/@", "warm", "none");
    ExpectUnknown(caller, "POST", "/v1/sandboxes", "warm", "none",
                  Body({{"extensions", {{"poolRef", "@"}}}}).dump());
    // The key of the record is no name either.
    ExpectUnknown(caller, "DELETE", "/v1/pools/@", "red%2Fwarm", "red%2Fnone");
    ExpectUnknown(caller, "POST", "/v1/sandboxes", "red/warm", "red/none",
                  Body({{"extensions", {{"poolRef", "@"}}}}).dump());
    EXPECT_EQ(GetAs(caller, "/v1/pools").at("items"), json::array());
  }
  EXPECT_EQ(StatusAs(kOfBlue, "POST", "/v1/pools", described("warm")), 201) << "the name is free";
  EXPECT_EQ(GetAs(kOfAll, "/v1/pools").at("items").size(), 2U);
  EXPECT_EQ(GetAs(kOfAll, "/v1/pools/warm?tenant=red").at("tenant"), "red");
  EXPECT_EQ(StatusAs(kOfBlue, "GET", "/v1/pools/warm?tenant=red"), 200);
  EXPECT_EQ(GetAs(kOfBlue, "/v1/pools/warm?tenant=red").at("tenant"), "blue")
      << "a tenant does not choose";
  // The owner's create gets the member, which is its own from now on.
  const auto create =
      As(kOfRed, "POST", "/v1/sandboxes", Body({{"extensions", {{"poolRef", "warm"}}}}).dump());
  ASSERT_TRUE(create->response);
  EXPECT_EQ(json::parse(create->response->body).at("id"), member);
  EXPECT_EQ(StatusAs(kOfRed, "GET", "/v1/sandboxes/" + member), 200);
  ExpectUnknown(kOfBlue, "GET", "/v1/sandboxes/@", member, kUnknown);
  // An image of the host that a pool uses stays; who may not see the pool is not told its name.
  const auto refused = As(kCaller, "DELETE", "/v1/images/busybox");
  EXPECT_EQ(refused->response->status, 409);
  EXPECT_EQ(refused->response->body.find("warm"), std::string::npos) << refused->response->body;
}

TEST_F(TenantObjectsTest, ATemplateOfAnotherIsUnknown) {
  const auto made =
      As(kOfRed, "POST", "/v1/templates", R"({"image":"busybox","env":{"K":"secret"}})");
  ASSERT_EQ(made->response->status, 201) << made->response->body;
  const std::string id = json::parse(made->response->body).at("templateId");
  const std::string unknown = "tpl-" + std::string(kUnknown);
  ExpectUnknown(kOfBlue, "GET", "/v1/templates/@", id, unknown);
  ExpectUnknown(kOfBlue, "DELETE", "/v1/templates/@", id, unknown);
  ExpectUnknown(kOfBlue, "POST", "/v1/sandboxes", id, unknown,
                R"({"templateId":"@","timeout":600})");
  EXPECT_EQ(GetAs(kOfBlue, "/v1/templates").at("pagination").at("totalItems"), 0);
  EXPECT_EQ(GetAs(kOfRed, "/v1/templates").at("pagination").at("totalItems"), 1);
}

TEST_F(TenantObjectsTest, WhoIsBoundToImagesMakesNone) {
  const auto expect = [this](const tenants::Caller& caller, bool bound) {
    for (const char* target :
         {"/v1/images?from=busybox&name=python", "/v1/images?name=python",
          "/v1/images/commit?image=busybox&name=python", "/v1/snapshots?name=python"}) {
      const auto asked = As(caller, "POST", target, "{}");
      ASSERT_TRUE(asked->response) << target;
      EXPECT_EQ(asked->response->status == 403, bound) << target << asked->response->body;
      if (bound) {
        EXPECT_EQ(CodeOf(asked), "TENANT::NOT_ALLOWED");
      }
    }
  };
  tenants::Tenant red, blue;
  red.name = "red";
  blue.name = "blue";
  tenants.Replace({red, blue});
  expect(kOfRed, false);
  tenants::Caller narrow = kOfRed;
  narrow.narrowing =
      std::make_shared<const tenants::Narrowing>(tenants::Narrowing{.images = {"busybox"}});
  expect(narrow, true);
  red.images = {"busybox"};
  tenants.Replace({red, blue});
  expect(kOfRed, true);
  expect(kOfBlue, false);
  expect(kCaller, false);
}

TEST_F(TenantObjectsTest, ATenantMountsWhatItsDefinitionAllows) {
  tenants::Tenant red{.name = "red"};
  red.host_paths = {"/srv/red"};
  red.object_stores = {"store"};
  tenants.Replace({red, tenants::Tenant{.name = "blue"}});
  const auto host = [](const std::string& path) {
    return Body(
               {{"volumes", {{{"name", "v"}, {"host", {{"path", path}}}, {"mountPath", "/data"}}}}})
        .dump();
  };
  for (const char* path : {"/srv", "/srv/blue", "/srv/redder"}) {
    EXPECT_EQ(StatusAs(kOfRed, "POST", "/v1/sandboxes", host(path)), 400) << path;
  }
  EXPECT_EQ(StatusAs(kOfBlue, "POST", "/v1/sandboxes", host("/srv/red")), 400);
  EXPECT_TRUE(spawner.volume_calls.empty()) << "the spawner is not even asked";
  // The path below the allowed directory is resolved within it.
  As(kOfRed, "POST", "/v1/sandboxes", host("/srv/red/a/b"));
  ASSERT_EQ(spawner.volume_calls.size(), 1U);
  EXPECT_EQ(spawner.AnswerVolume(), "check /srv/red");
  loop.Run();
  const auto build = spawner.AnswerBuild();
  EXPECT_EQ(build.plan->volumes.at(0).source, "/srv/red");
  EXPECT_EQ(build.plan->volumes.at(0).sub_path, "a/b");

  const json volume = {{"name", "v"},
                       {"ossfs",
                        {{"bucket", "data"},
                         {"endpoint", "https://s3.example"},
                         {"accessKeyId", "i"},
                         {"accessKeySecret", "s"}}},
                       {"mountPath", "/data"}};
  const std::string bucket = Body({{"volumes", json::array({volume})}}).dump();
  const auto refused = As(kOfBlue, "POST", "/v1/sandboxes", bucket);
  ASSERT_TRUE(refused->response);
  EXPECT_EQ(CodeOf(refused), "VOLUME::INVALID_OSSFS_ENDPOINT") << refused->response->body;
  EXPECT_FALSE(As(kOfRed, "POST", "/v1/sandboxes", bucket)->response) << "red's is being built";
}

TEST_F(TenantObjectsTest, NetworksOfOneNameAreTwo) {
  const json wanted = {{"extensions", {{"network", "n"}, {"network.hostname", "db"}}}};
  CreateAs(kOfRed, wanted);
  CreateAs(kOfBlue, wanted);
  std::vector<std::string> owners;
  for (const auto& [slot, request] : network.claimed) {
    if (request.network == "n") owners.push_back(request.tenant);
  }
  std::sort(owners.begin(), owners.end());
  EXPECT_EQ(owners, (std::vector<std::string>{"blue", "red"}));
}

TEST_F(TenantObjectsTest, AnImageOfATenantIsItsOwn) {
  images::Image mine = images.image;
  mine.name = "tool:latest";
  mine.tenant = "red";
  mine.digest = "sha256:red";
  images.owned[images::ImageKey("red", "tool:latest")] = mine;
  ExpectUnknown(kOfBlue, "GET", "/v1/images/@", "tool:latest", "none:latest");
  ExpectUnknown(kOfBlue, "POST", "/v1/sandboxes", "tool:latest", "none:latest",
                Body({{"image", {{"uri", "@"}}}}).dump());
  EXPECT_EQ(GetAs(kOfBlue, "/v1/images").at("items").size(), 1U);
  EXPECT_EQ(GetAs(kOfRed, "/v1/images").at("items").size(), 2U);
  EXPECT_EQ(GetAs(kOfRed, "/v1/images/tool:latest").at("tenant"), "red");
  CreateAs(kOfRed, {{"image", {{"uri", "tool:latest"}}}});
  // The store refuses to remove the host's image for a tenant.
  EXPECT_EQ(MapError(Error(Code::kPermissionDenied, "no"), Doing::kRemoveImage).status, 403);
}

}  // namespace
}  // namespace atl::api
