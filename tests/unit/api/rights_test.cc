#include "runtime/api/gate/rights.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

using tenants::Identity;
using tenants::Role;

const char* Word(Reach reach) {
  switch (reach) {
    case Reach::kNone:
      return "–";
    case Reach::kOwn:
      return "own";
    case Reach::kOwnOrReason:
      return "own, all with a reason";
    case Reach::kNames:
      return "all, names only";
    case Reach::kAll:
      return "all";
  }
  return "";
}

std::string Table(Service service) {
  std::string table = "| Route |";
  for (const Role role : tenants::kRoles)
    table.append(" ").append(tenants::RoleName(role)).append(" |");
  table += " audited as |\n|---|---|---|---|---|---|---|\n";
  for (const Rights& row : AllRights()) {
    if (row.service != service) continue;
    std::string name = RouteName(row);
    if (service == Service::kExecd || service == Service::kEgress) {
      name = std::string(row.method).append(" ").append(row.pattern);
    }
    table.append("| `").append(name).append("` |");
    for (const Role role : tenants::kRoles) {
      table.append(" ").append(row.open ? "open" : Word(row.Of(role))).append(" |");
    }
    table.append(row.action.empty() ? " |\n" : " ").append(row.action);
    if (!row.action.empty()) table.append(" |\n");
  }
  return table;
}

std::string Document() {
  return "# Roles\n\n"
         "Which role may use which route. `runtime/api/gate/rights.cc` holds the table that the "
         "daemon obeys; a test\n"
         "writes this page from it (`ATOLL_WRITE=1 build/tests/unit/api/api_test "
         "--gtest_filter='Rights.*'`).\n\n"
         "- own: objects of the key's tenant. all: objects of every tenant. –: refused, `403 "
         "FORBIDDEN` with\n"
         "  `needs`, the role that may.\n"
         "- An object of another tenant and an unknown id get the same answer.\n"
         "- all, names only: ids, names, states, reasons, times and sizes, without contents, "
         "messages, env or the\n"
         "  values of labels. A filter by labels is refused, since it would find their values.\n"
         "- `GET /usage?by=label:KEY` shows values of that label to whoever reads usage: they are "
         "what a bill is split\n"
         "  by. Keep secrets out of labels.\n"
         "- own, all with a reason: an admin enters the sandbox of another tenant with `?reason=` "
         "and at least 8\n"
         "  characters.\n"
         "- open: without a key. Every route is also served below `/v1`.\n"
         "- `content.read` is audited if the object belongs to another tenant.\n"
         "- Roles do not bind somebody who can write `/etc/atoll` or read the daemon's state "
         "directory.\n\n"
         "## API\n\n" +
         Table(Service::kApi) +
         "\n## Port 44772 of a sandbox: execd\n\nThe last row stands for paths that execd does not "
         "have.\n\n" +
         Table(Service::kExecd) + "\n## Port 18080 of a sandbox: its policy and vault\n\n" +
         Table(Service::kEgress) + "\n## Every other port of a sandbox\n\n" + Table(Service::kPort);
}

// ATOLL_WRITE=1 in the environment writes the document.
TEST(Rights, TheDocumentIsTheTable) {
  if (std::getenv("ATOLL_WRITE") != nullptr) {
    std::ofstream(ROLES_DOCUMENT) << Document();
    return;
  }
  std::stringstream document;
  document << std::ifstream(ROLES_DOCUMENT).rdbuf();
  EXPECT_EQ(document.str(), Document());
}

TEST(Rights, RowsAreSound) {
  std::set<std::string> names;
  const Rights* above = nullptr;
  for (const Rights& row : AllRights()) {
    EXPECT_TRUE(names.insert(RouteName(row)).second || row.service == Service::kPort)
        << RouteName(row) << " occurs twice";
    EXPECT_NE(row.Of(Role::kAdmin), Reach::kNone) << RouteName(row);
    // A change is audited, except of what clients measure.
    if (row.method != "GET" && row.pattern != "/metrics/events") {
      EXPECT_FALSE(row.action.empty()) << RouteName(row);
    }
    if (!row.parameter.empty()) {
      ASSERT_NE(above, nullptr);
      EXPECT_EQ(above->pattern, row.pattern);
      EXPECT_EQ(above->method, row.method);
      EXPECT_TRUE(above->parameter.empty());
    }
    // A lower role never reaches more than a higher one of the same kind.
    EXPECT_FALSE(row.Of(Role::kViewer) != Reach::kNone && row.Of(Role::kDeveloper) == Reach::kNone)
        << RouteName(row);
    for (const Role role : {Role::kViewer, Role::kDeveloper}) {
      EXPECT_TRUE(row.Of(role) == Reach::kNone || row.Of(role) == Reach::kOwn) << RouteName(row);
    }
    above = &row;
  }
}

TEST_F(ApiTest, TheTableOfRightsHasTheRoutesOfTheRouterAndNoOther) {
  std::set<std::string> rows, routes;
  for (const Rights& row : AllRights()) {
    if (row.service == Service::kApi && row.parameter.empty()) rows.insert(RouteName(row));
  }
  for (const auto& [method, pattern] : api->router().All()) routes.insert(method + " " + pattern);
  EXPECT_EQ(rows, routes);
}

TEST(Rights, AQueryChoosesTheRow) {
  const Rights& image = *RightsOf("GET", "/images/{name:path}");
  EXPECT_EQ(RouteName(ForQuery(image, "")), "GET /images/{name:path}");
  EXPECT_EQ(RouteName(ForQuery(image, "x=archive")), "GET /images/{name:path}");
  EXPECT_EQ(RouteName(ForQuery(image, "x=1&archive=oci")), "GET /images/{name:path}?archive");
  // A name is compared decoded, as the handler reads it.
  EXPECT_EQ(RouteName(ForQuery(image, "%61rchive=oci")), "GET /images/{name:path}?archive");
  EXPECT_EQ(RouteName(ForQuery(*RightsOf("GET", "/volumes"), "archive=oci")), "GET /volumes");
  EXPECT_EQ(RightsOf("PUT", "/volumes"), nullptr);
}

TEST(Rights, RoutesAtPorts) {
  const auto name = [](int port, const char* method, const char* rest) {
    return RouteName(RightsAtPort(port, method, rest));
  };
  EXPECT_EQ(name(44772, "POST", "/command?x"), "POST /proxy/44772/command");
  EXPECT_EQ(name(44772, "POST", "/%63ommand"), "POST /proxy/44772/command");
  EXPECT_EQ(name(44772, "GET", "/command/7/logs"), "GET /proxy/44772/command/{id}/logs");
  EXPECT_EQ(name(44772, "GET", "/command/7%2Flogs"), "GET /proxy/44772/command/{id}/logs");
  EXPECT_EQ(name(44772, "DELETE", "/v1/filesystem/1/2/files"),
            "DELETE /proxy/44772/v1/filesystem/{uid}/{gid}/files");
  EXPECT_EQ(name(44772, "GET", "/proxy/80/x/y"), "* /proxy/44772/proxy/{full_path:path}");
  for (const char* unknown :
       {"", "/", "/nope", "?x", "/command/", "/comm%zzand", "/command/7/8/9"}) {
    EXPECT_EQ(name(44772, "GET", unknown), "* /proxy/44772/{full_path:path}") << unknown;
  }
  EXPECT_EQ(name(44772, "HEAD", "/files/info"), "* /proxy/44772/{full_path:path}");
  EXPECT_EQ(name(18080, "GET", "/policy"), "GET /proxy/18080/policy");
  EXPECT_EQ(name(18080, "PATCH", "/credential-vault"), "PATCH /proxy/18080/credential-vault");
  EXPECT_EQ(name(18080, "HEAD", "/policy"), "* /proxy/18080/{full_path:path}");
  EXPECT_TRUE(RightsAtPort(18080, "GET", "/healthz").open);
  EXPECT_EQ(name(80, "GET", "/command"), "* /proxy/{port}");
  EXPECT_EQ(name(1, "BREW", ""), "* /proxy/{port}");
}

Parsed<tenants::Caller> As(Role role, const Rights& rights, std::string_view reason = {}) {
  return Judge(rights, {.key_id = "k", .tenant = "red", .role = role}, reason);
}

TEST(Rights, TheJudgeMakesTheCaller) {
  const Rights& list = *RightsOf("GET", "/sandboxes");
  EXPECT_FALSE(As(Role::kViewer, list)->sees_all);
  EXPECT_EQ(As(Role::kViewer, list)->tenant, "red");
  EXPECT_EQ(As(Role::kViewer, list)->key_id, "k");
  EXPECT_TRUE(As(Role::kOperator, list)->sees_all);
  EXPECT_FALSE(As(Role::kOperator, list)->names_only);
  EXPECT_TRUE(As(Role::kAuditor, list)->sees_all);
  EXPECT_TRUE(As(Role::kAuditor, list)->names_only);
}

TEST(Rights, TheJudgeSaysWhichRoleIsNeeded) {
  const auto needs = [](Role role, const Rights& rights) {
    const auto refused = As(role, rights);
    if (refused) return std::string();
    EXPECT_EQ(refused.error().status, 403);
    const json body = json::parse(refused.error().body);
    EXPECT_EQ(body.at("code"), "FORBIDDEN");
    return body.at("needs").get<std::string>();
  };
  const Rights& create = *RightsOf("POST", "/sandboxes");
  EXPECT_EQ(needs(Role::kViewer, create), "developer");
  EXPECT_EQ(needs(Role::kOperator, create), "developer");
  EXPECT_EQ(needs(Role::kDeveloper, create), "");
  EXPECT_EQ(needs(Role::kDeveloper, *RightsOf("POST", "/images/prune")), "operator");
  EXPECT_EQ(needs(Role::kOperator, *RightsOf("POST", "/shutdown")), "admin");
}

TEST(Rights, AnAdminEntersAForeignSandboxOnlyWithAReason) {
  const Rights& command = RightsAtPort(44772, "POST", "/command");
  EXPECT_FALSE(As(Role::kAdmin, command)->sees_all);
  EXPECT_FALSE(As(Role::kAdmin, command, "1234567")->sees_all);
  EXPECT_TRUE(As(Role::kAdmin, command, "12345678")->sees_all);
  EXPECT_FALSE(As(Role::kDeveloper, command, "12345678")->sees_all);
}

TEST(Rights, AKeyMayBeNarrowedToRoutes) {
  const auto narrowing = std::make_shared<const tenants::Narrowing>(tenants::Narrowing{
      .routes = {"GET /metrics", "* /sandboxes/{sandbox_id}/snapshots", "POST /proxy/44772/*"}});
  const auto may = [&narrowing](const Rights& rights) {
    return Judge(rights, {.tenant = "red", .role = Role::kDeveloper, .narrowing = narrowing})
        .has_value();
  };
  EXPECT_TRUE(may(*RightsOf("GET", "/metrics")));
  EXPECT_TRUE(may(*RightsOf("POST", "/sandboxes/{sandbox_id}/snapshots")));
  EXPECT_TRUE(may(RightsAtPort(44772, "POST", "/command")));
  EXPECT_FALSE(may(RightsAtPort(44772, "DELETE", "/command")));
  EXPECT_FALSE(may(*RightsOf("GET", "/sandboxes")));
  for (const char* sound : {"GET /metrics", "* *", "POST /proxy/44772/*"}) {
    EXPECT_TRUE(tenants::CheckRouteRule(sound)) << sound;
  }
  for (const char* unsound : {"", "GET", "/metrics", " /metrics", "GET metrics", "GET /[a-z]"}) {
    EXPECT_FALSE(tenants::CheckRouteRule(unsound)) << unsound;
  }
}

}  // namespace
}  // namespace atl::api
