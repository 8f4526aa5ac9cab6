// The snapshot routes, in front of a real Lifecycle among fakes.
#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

class SnapshotApiTest : public ApiTest {
 protected:
  json Take(const std::string& sandbox, const std::string& body = "") {
    const auto exchange = Send("POST", "/v1/sandboxes/" + sandbox + "/snapshots", body);
    EXPECT_EQ(exchange->response->status, 202) << exchange->response->body;
    json taken = json::parse(exchange->response->body);
    EXPECT_EQ(exchange->response->headers.Get("Location"),
              "/v1/snapshots/" + taken.at("id").get<std::string>());
    return taken;
  }
  std::string TakeWhole(const std::string& sandbox, const std::string& body = "") {
    const std::string id = Take(sandbox, body).at("id");
    spawner.AnswerCopy();
    spawner.AnswerPublish();
    clock.Advance(1'000'000);
    return id;
  }
  std::string Refused(int status, const std::string& method, const std::string& target,
                      const std::string& body = "") {
    const auto exchange = Send(method, target, body);
    EXPECT_EQ(exchange->response->status, status) << exchange->response->body;
    return CodeOf(exchange);
  }
  std::vector<std::string> Ids(const std::string& query) {
    std::vector<std::string> ids;
    const json list = Get("/v1/snapshots" + query);
    for (const json& item : list.at("items")) ids.push_back(item.at("id"));
    return ids;
  }
};

TEST_F(SnapshotApiTest, IsToldAsUpstreamTellsIt) {
  const std::string box = Create();
  const json taken = Take(box, R"({"name": "one"})");
  EXPECT_EQ(taken.at("sandboxId"), box);
  EXPECT_EQ(taken.at("name"), "one");
  EXPECT_EQ(taken.at("status").at("state"), "Creating");
  EXPECT_EQ(taken.at("status").at("reason"), "snapshot_accepted");
  EXPECT_EQ(taken.size(), 5U);
  EXPECT_EQ(Get("/v1/snapshots/" + taken.at("id").get<std::string>()), taken);
}

TEST_F(SnapshotApiTest, BodiesOfACreate) {
  const std::string box = Create();
  const std::string target = "/v1/sandboxes/" + box + "/snapshots";
  for (const char* body : {"", "null", "{}", R"({"name": null})"}) {
    const std::string id = TakeWhole(box, body);
    EXPECT_FALSE(Get("/v1/snapshots/" + id).contains("name")) << body;
  }
  for (const char* body : {R"({"name": ""})", R"({"name": 1})", "[]"}) {
    Refused(422, "POST", target, body);
  }
  Refused(422, "POST", target, json{{"name", std::string(254, 'n')}}.dump());
  EXPECT_EQ(Get("/v1/snapshots").at("pagination").at("totalItems"), 4);
}

TEST_F(SnapshotApiTest, Lists) {
  const std::string a = Create(), b = Create();
  const std::string first = TakeWhole(a, R"({"name": "x"})");
  const std::string second = TakeWhole(b, R"({"name": "y"})");
  const std::string third = Take(a, R"({"name": "x"})").at("id");
  using List = std::vector<std::string>;
  EXPECT_EQ(Ids(""), (List{third, second, first}));
  EXPECT_EQ(Ids("?sandboxId=" + a), (List{third, first}));
  EXPECT_EQ(Ids("?name=y"), List{second});
  EXPECT_EQ(Ids("?state=Ready"), (List{second, first}));
  EXPECT_EQ(Ids("?state=Ready&state=Creating"), (List{third, second, first}));
  EXPECT_EQ(Ids("?state=ready"), List{});
  EXPECT_EQ(Ids("?state=Deleting"), List{});
  EXPECT_EQ(Ids("?page=2&pageSize=2"), List{first});
  EXPECT_EQ(Get("/v1/snapshots?pageSize=2").at("pagination"), (json{{"page", 1},
                                                                    {"pageSize", 2},
                                                                    {"totalItems", 3},
                                                                    {"totalPages", 2},
                                                                    {"hasNextPage", true}}));
  Refused(422, "GET", "/v1/snapshots?page=0");
}

TEST_F(SnapshotApiTest, Refusals) {
  EXPECT_EQ(Refused(404, "POST", "/v1/sandboxes/none/snapshots"), "DOCKER::SANDBOX_NOT_FOUND");
  EXPECT_EQ(Refused(404, "GET", "/v1/snapshots/none"), "SNAPSHOT::NOT_FOUND");
  EXPECT_EQ(Refused(404, "DELETE", "/v1/snapshots/none"), "SNAPSHOT::NOT_FOUND");
  const std::string box = Create();
  const std::string id = Take(box).at("id");
  EXPECT_EQ(Refused(409, "POST", "/v1/sandboxes/" + box + "/snapshots"),
            "SNAPSHOT::INVALID_SOURCE_STATE");
  EXPECT_EQ(Refused(409, "DELETE", "/v1/snapshots/" + id), "SNAPSHOT::INVALID_STATE");
}

TEST_F(SnapshotApiTest, Restores) {
  const auto body = [](const std::string& id) {
    return json{{"snapshotId", id}, {"resourceLimits", json::object()}}.dump();
  };
  EXPECT_EQ(Refused(400, "POST", "/v1/sandboxes", body("none")), "SNAPSHOT::NOT_FOUND");
  const std::string box = Create();
  const std::string id = Take(box).at("id");
  EXPECT_EQ(Refused(409, "POST", "/v1/sandboxes", body(id)), "SNAPSHOT::NOT_READY");
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  const auto exchange = Send("POST", "/v1/sandboxes", body(id));
  spawner.AnswerBuild();
  ASSERT_EQ(exchange->response->status, 202);
  created = json::parse(exchange->response->body);
  EXPECT_EQ(created.at("entrypoint"), (json{"tail", "-f", "/dev/null"}));
  const json shown = Get("/v1/sandboxes/" + created.at("id").get<std::string>());
  EXPECT_EQ(shown.at("snapshotId"), id);
  EXPECT_FALSE(shown.contains("image"));
  EXPECT_EQ(Refused(409, "DELETE", "/v1/snapshots/" + id), "SNAPSHOT::DELETE_CONFLICT");
  EXPECT_EQ(Get("/v1/images/busybox:latest").at("snapshots"), json{id});
  images.kept.erase(1);
  EXPECT_EQ(Refused(409, "POST", "/v1/sandboxes", body(id)), "SNAPSHOT::INVALID_RESTORE_CONFIG");
  EXPECT_EQ(Status("DELETE", "/v1/sandboxes/" + created.at("id").get<std::string>()), 204);
  spawner.AnswerDestroy();
  EXPECT_EQ(Status("DELETE", "/v1/snapshots/" + id), 204);
  EXPECT_EQ(Refused(404, "GET", "/v1/snapshots/" + id), "SNAPSHOT::NOT_FOUND");
}

}  // namespace
}  // namespace atl::api
