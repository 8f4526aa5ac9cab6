#include "runtime/api/gate/names_only.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace atl::api {
namespace {

using nlohmann::json;

json Shown(const json& body) {
  const http::Response answer = NamesOnly({200, {}, body.dump()});
  EXPECT_EQ(answer.status, 200);
  return json::parse(answer.body);
}

TEST(NamesOnly, ShowsNamesAndStates) {
  const json box = {{"id", "7"},
                    {"status", {{"state", "Failed"}, {"reason", "CONTAINER_EXITED_ERROR"}}},
                    {"image", {{"uri", "busybox:latest"}}},
                    {"createdAt", "2026-01-01T00:00:00Z"},
                    {"platform", {{"os", "linux"}}},
                    {"metadata", {{"name", "web"}, {"customer", "***"}}}};
  EXPECT_EQ(Shown({{"items", {box}}, {"pagination", {{"page", 1}}}}),
            json({{"items", {box}}, {"pagination", {{"page", 1}}}}));
}

TEST(NamesOnly, LeavesOutWhatItDoesNotKnow) {
  json box = {{"id", "7"}};
  const json bare = box;
  for (const char* name : {"entrypoint", "env", "extensions", "events", "addedLater", "cmd",
                           "probe", "warmup", "workingDir", "message"}) {
    box[name] = {{"id", "hunter2"}, {"message", "hunter2"}};
  }
  EXPECT_EQ(Shown(box), bare);
  // A message may quote output, or the path of a program.
  EXPECT_EQ(Shown({{"status", {{"phase", "Failed"}, {"message", "sh: hunter2: not found"}}}}),
            json({{"status", {{"phase", "Failed"}}}}));
  EXPECT_EQ(Shown({{"labels", {{"team", "hunter2"}}}}), json({{"labels", {{"team", "***"}}}}));
  // A map of labels that is none, and a text below a known name that is none.
  EXPECT_EQ(Shown({{"metadata", "hunter2"}, {"labels", {"hunter2"}}}), json::object());
  EXPECT_EQ(Shown(json::array({{{"id", 1}, {"secret", 2}}})), json::array({{{"id", 1}}}));
}

TEST(NamesOnly, RefusesTexts) {
  for (const char* text : {"Failed: sh: hunter2: not found\n", "\"hunter2\"", "17", "null"}) {
    const http::Response answer = NamesOnly({200, {}, text});
    EXPECT_EQ(answer.status, 403) << text;
    EXPECT_EQ(json::parse(answer.body).at("code"), "FORBIDDEN");
    EXPECT_EQ(answer.body.find("hunter2"), std::string::npos);
  }
  EXPECT_EQ(NamesOnly({404, {}, "gone"}).body, "gone");
  EXPECT_EQ(NamesOnly({204, {}, ""}).status, 204);
}

TEST(NamesOnly, RefusesToSelectByLabels) {
  for (const char* query : {"metadata=customer%3Dx", "page=1&label=customer=x", "label=customer",
                            "%6Cabel=x", "state=Running&metadata="}) {
    const auto refusal = RefuseLabelFilter(query);
    ASSERT_TRUE(refusal) << query;
    EXPECT_EQ(refusal->status, 403);
  }
  EXPECT_FALSE(RefuseLabelFilter("state=Running&page=2&since=2026-01-01T00:00:00Z"));
  EXPECT_FALSE(RefuseLabelFilter(""));
}

}  // namespace
}  // namespace atl::api
