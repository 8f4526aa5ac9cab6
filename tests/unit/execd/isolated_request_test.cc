#include "execd/isolated/request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace atl::execd {
namespace {

using nlohmann::json;
using Mode = IsolatedOverlay::Mode;

// A valid request, to which each test adds something.
json Plain() {
  return {{"workspace", {{"path", "/w"}}}};
}

json With(const std::string& name, const json& value) {
  json request = Plain();
  request[name] = value;
  return request;
}

json Overlays(int count) {
  json overlays = json::array();
  for (int i = 0; i < count; ++i) overlays.push_back({{"path", "/o" + std::to_string(i)}});
  return overlays;
}

json Paths(int count) {
  json paths = json::array();
  for (int i = 0; i < count; ++i) paths.push_back("/p" + std::to_string(i));
  return paths;
}

IsolatedRequest Taken(const json& request) {
  const auto parsed = ParseIsolatedRequest(request.dump());
  EXPECT_TRUE(parsed) << request << ": " << parsed.error().message();
  return parsed.value_or(IsolatedRequest());
}

// Returns the reason for the refusal.
std::string Refused(const std::string& body) {
  const auto parsed = ParseIsolatedRequest(body);
  EXPECT_FALSE(parsed) << body.substr(0, 1000);
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument) << body.substr(0, 1000);
  return parsed.error().message();
}

void ExpectRefused(const json& request, const std::string& says) {
  const std::string why = Refused(request.dump());
  EXPECT_NE(why.find(says), std::string::npos) << request.dump().substr(0, 1000) << ": " << why;
}

TEST(IsolatedRequest, Defaults) {
  // null counts as absent.
  json nothing = Plain();
  for (const char* name : {"profile", "overlays", "extra_writable", "binds", "share_net",
                           "env_passthrough", "uid", "gid", "uid_mode", "idle_timeout_seconds"}) {
    nothing[name] = nullptr;
  }
  nothing["workspace"]["mode"] = nullptr;
  for (const json& body : {Plain(), nothing}) {
    const IsolatedRequest request = Taken(body);
    EXPECT_TRUE(request.strict);
    ASSERT_EQ(request.overlays.size(), 1U);
    EXPECT_EQ(request.overlays[0].path, "/w");
    EXPECT_EQ(request.overlays[0].mode, Mode::kOverlay);
    EXPECT_TRUE(request.overlays[0].persist);
    EXPECT_TRUE(request.extra_writable.empty());
    EXPECT_TRUE(request.binds.empty());
    EXPECT_TRUE(request.share_net);
    EXPECT_FALSE(request.allow_env);
    EXPECT_TRUE(request.env_keys.empty());
    EXPECT_FALSE(request.uid);
    EXPECT_FALSE(request.gid);
    EXPECT_FALSE(request.userns);
    EXPECT_EQ(request.idle_seconds, 0);
  }
}

TEST(IsolatedRequest, EveryMember) {
  const IsolatedRequest request =
      Taken({{"profile", "balanced"},
             {"workspace", {{"path", "/w"}, {"mode", "rw"}}},
             {"overlays",
              {{{"path", "/o"}, {"mode", "overlay"}, {"persist", false}},
               {{"path", "/o/in"}, {"mode", "ro"}}}},
             {"extra_writable", {"/data"}},
             {"binds", {{{"source", "/mnt/a"}, {"dest", "/b"}, {"readonly", true}}}},
             {"share_net", false},
             {"env_passthrough", {{"mode", "allow"}, {"keys", {"A", "B"}}}},
             {"uid", 1000},
             {"gid", 0},
             {"uid_mode", "userns"},
             {"idle_timeout_seconds", 60}});
  EXPECT_FALSE(request.strict);
  ASSERT_EQ(request.overlays.size(), 3U);
  EXPECT_EQ(request.overlays[0].path, "/w");  // the workspace comes first
  EXPECT_EQ(request.overlays[0].mode, Mode::kRw);
  EXPECT_EQ(request.overlays[1].path, "/o");
  EXPECT_EQ(request.overlays[1].mode, Mode::kOverlay);
  EXPECT_FALSE(request.overlays[1].persist);
  EXPECT_EQ(request.overlays[2].path, "/o/in");
  EXPECT_EQ(request.overlays[2].mode, Mode::kRo);
  EXPECT_EQ(request.extra_writable, std::vector<std::string>{"/data"});
  ASSERT_EQ(request.binds.size(), 1U);
  EXPECT_EQ(request.binds[0].source, "/mnt/a");
  EXPECT_EQ(request.binds[0].dest, "/b");
  EXPECT_TRUE(request.binds[0].readonly);
  EXPECT_FALSE(request.share_net);
  EXPECT_TRUE(request.allow_env);
  EXPECT_EQ(request.env_keys, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(request.uid, 1000U);
  EXPECT_EQ(request.gid, 0U);
  EXPECT_TRUE(request.userns);
  EXPECT_EQ(request.idle_seconds, 60);
}

TEST(IsolatedRequest, RefusesWhatIsNoObject) {
  for (const char* body : {"", " ", "{", "[]", "null", "\"x\"", "1",
                           "{\"workspace\":{\"path\":\"/w\"}", "{'workspace':1}"}) {
    EXPECT_NE(Refused(body), "") << body;
  }
}

TEST(IsolatedRequest, NamesAreReadAsGoReadsThem) {
  const auto request = ParseIsolatedRequest(
      R"({"Workspace":{"PATH":"/w"},"uid":1,"UID":2,"unknown":[{}]} and what follows)");
  ASSERT_TRUE(request) << request.error().message();
  EXPECT_EQ(request->overlays[0].path, "/w");
  EXPECT_EQ(request->uid, 2U);  // the last value counts
}

TEST(IsolatedRequest, WorkspaceOrOverlays) {
  for (const json& request : {json::object(), json{{"overlays", json::array()}},
                              json{{"workspace", nullptr}}, json{{"extra_writable", {"/data"}}}}) {
    ExpectRefused(request, "workspace or overlays");
  }
  const IsolatedRequest request = Taken({{"overlays", Overlays(2)}});
  ASSERT_EQ(request.overlays.size(), 2U);
  EXPECT_EQ(request.overlays[0].path, "/o0");
}

TEST(IsolatedRequest, Words) {
  for (const char* odd : {"x", "STRICT", "strict ", "strict\tbalanced"}) {
    const auto profile = ParseIsolatedRequest(With("profile", odd).dump());
    ASSERT_FALSE(profile) << odd;
    EXPECT_EQ(profile.error().code(), Code::kNotFound) << odd;
    EXPECT_NE(profile.error().message().find("profile"), std::string::npos) << odd;
    ExpectRefused(With("uid_mode", odd), "uid_mode");
    ExpectRefused(With("env_passthrough", {{"mode", odd}}), "mode");
    ExpectRefused(With("workspace", {{"path", "/w"}, {"mode", odd}}), "mode");
    ExpectRefused(With("overlays", {{{"path", "/o"}, {"mode", odd}}}), "mode");
  }
  ExpectRefused(With("profile", std::string("a\0b", 3)), "NUL");
}

TEST(IsolatedRequest, PersistIsOfOverlaysAlone) {
  for (const bool persist : {true, false}) {
    for (const char* mode : {"rw", "ro"}) {
      ExpectRefused(With("overlays", {{{"path", "/o"}, {"mode", mode}, {"persist", persist}}}),
                    "persist");
    }
    ExpectRefused(With("workspace", {{"path", "/w"}, {"persist", persist}}), "persist");
    const auto request = Taken(With("overlays", {{{"path", "/o"}, {"persist", persist}}}));
    EXPECT_EQ(request.overlays[1].persist, persist);
  }
}

TEST(IsolatedRequest, PathsAreAbsoluteAndClean) {
  const std::string longest = "/" + std::string(1023, 'x');
  std::vector<std::string> odd = {"",     "x",     "x/y",    ".",       "..",  "/",     "//",
                                  "//a",  "/a/",   "/a//b",  "/.",      "/..", "/a/.",  "/a/..",
                                  "/./a", "/../a", "/a/./b", "/a/../b", "~/a", "$HOME", " /a"};
  odd.push_back(longest + "x");
  odd.emplace_back("/a\0b", 4);
  for (const std::string& path : odd) {
    ExpectRefused({{"workspace", {{"path", path}}}}, "path");
    EXPECT_NE(Refused(With("overlays", {{{"path", path}}}).dump()), "");
    EXPECT_NE(Refused(With("extra_writable", {path}).dump()), "");
    EXPECT_NE(Refused(With("binds", {{{"source", path}}}).dump()), "");
    EXPECT_NE(Refused(With("binds", {{{"source", path}, {"dest", "/d"}}}).dump()), "");
    if (path.empty()) continue;  // the same as the source
    EXPECT_NE(Refused(With("binds", {{{"source", "/data"}, {"dest", path}}}).dump()), "");
  }
  for (const std::string& path : {std::string("/a"), std::string("/a b/c"), std::string("/..a/b.."),
                                  std::string("/..."), std::string("/\\,:\n\xC3\xA9"), longest}) {
    EXPECT_EQ(Taken({{"workspace", {{"path", path}}}}).overlays[0].path, path);
    EXPECT_EQ(Taken(With("overlays", {{{"path", path}}})).overlays[1].path, path);
    EXPECT_EQ(Taken(With("extra_writable", {path})).extra_writable[0], path);
    const auto bind = Taken(With("binds", {{{"source", path}}})).binds[0];
    EXPECT_EQ(bind.source, path);
    EXPECT_EQ(bind.dest, path);  // the default
    EXPECT_FALSE(bind.readonly);
  }
}

TEST(IsolatedRequest, NoTwoMountsOnOnePath) {
  for (const json& more :
       {json{{"overlays", {{{"path", "/w"}}}}},
        json{{"overlays", {{{"path", "/o"}}, {{"path", "/o"}, {"mode", "ro"}}}}},
        json{{"extra_writable", {"/w"}}}, json{{"extra_writable", {"/data", "/mnt", "/data"}}},
        json{{"binds", {{{"source", "/w"}}}}},
        json{{"binds", {{{"source", "/data"}, {"dest", "/w"}}}}},
        json{{"extra_writable", {"/data"}}, {"binds", {{{"source", "/data"}}}}},
        json{{"binds",
              {{{"source", "/data/a"}, {"dest", "/b"}},
               {{"source", "/data/c"}, {"dest", "/b"}}}}}}) {
    json request = Plain();
    request.update(more);
    ExpectRefused(request, "named twice");
  }
  // Paths within each other, and one source with two destinations, are not duplicates.
  Taken(
      {{"overlays", {{{"path", "/o"}}, {{"path", "/o/in"}}, {{"path", "/oo"}}}},
       {"binds", {{{"source", "/data"}, {"dest", "/a"}}, {{"source", "/data"}, {"dest", "/b"}}}}});
}

TEST(IsolatedRequest, WhatASessionHasOfItsOwn) {
  for (const char* own : {"/dev", "/proc", "/sys", "/dev/shm", "/proc/self", "/sys/fs/cgroup"}) {
    ExpectRefused({{"workspace", {{"path", own}}}}, "of its own");
    ExpectRefused(With("overlays", {{{"path", own}}}), "of its own");
    ExpectRefused(With("extra_writable", {own}), "of its own");
    ExpectRefused(With("binds", {{{"source", "/data"}, {"dest", own}}}), "of its own");
  }
  Taken({{"overlays", {{{"path", "/device"}}, {{"path", "/process"}}, {{"path", "/a/dev"}}}}});
}

TEST(IsolatedRequest, SixteenOverlaysInAll) {
  EXPECT_EQ(Taken({{"overlays", Overlays(16)}}).overlays.size(), 16U);
  EXPECT_EQ(Taken(With("overlays", Overlays(15))).overlays.size(), 16U);
  ExpectRefused({{"overlays", Overlays(17)}}, "overlays");
  ExpectRefused(With("overlays", Overlays(16)), "overlays");
  ExpectRefused({{"overlays", Overlays(100000)}}, "overlays");
}

TEST(IsolatedRequest, ThirtyTwoMountsInAll) {
  EXPECT_EQ(Taken(With("extra_writable", Paths(31))).extra_writable.size(), 31U);
  ExpectRefused(With("extra_writable", Paths(32)), "mounts");
  ExpectRefused(With("extra_writable", Paths(33)), "extra_writable: too many");
  json binds = json::array();
  for (int i = 0; i < 33; ++i)
    binds.push_back({{"source", "/data"}, {"dest", "/b" + std::to_string(i)}});
  ExpectRefused(With("binds", binds), "binds: too many");
  ExpectRefused({{"overlays", Overlays(16)}, {"extra_writable", Paths(17)}}, "mounts");
  Taken({{"overlays", Overlays(16)}, {"extra_writable", Paths(16)}});
}

TEST(IsolatedRequest, WrongTypes) {
  const json values[] = {0,
                         -1,
                         1.5,
                         true,
                         false,
                         "",
                         "text",
                         json::array(),
                         {1},
                         {"text"},
                         json::array({json::object()}),
                         json::array({nullptr}),
                         json::object(),
                         {{"path", 1}}};
  const struct {
    const char* name;
    std::vector<size_t> right;  // indexes into `values`
  } kMembers[] = {
      {"profile", {5}},  // an empty text counts as absent
      {"workspace", {}},
      {"overlays", {7}},
      {"extra_writable", {7}},
      {"binds", {7}},
      {"share_net", {3, 4}},
      {"env_passthrough", {12, 13}},  // objects without any known member
      {"uid", {0}},
      {"gid", {0}},
      {"uid_mode", {5}},
      {"idle_timeout_seconds", {0}},
  };
  for (const auto& member : kMembers) {
    for (size_t i = 0; i < std::size(values); ++i) {
      const json request = With(member.name, values[i]);
      const bool right =
          std::find(member.right.begin(), member.right.end(), i) != member.right.end();
      if (right) {
        Taken(request);
      } else {
        EXPECT_FALSE(ParseIsolatedRequest(request.dump())) << request;
      }
    }
  }
  for (const json& odd : {json("/a"), json(nullptr), json::array({"/a"})}) {
    ExpectRefused(With("overlays", json::array({odd})), "overlays: must be an object");
    ExpectRefused(With("binds", json::array({odd})), "binds: must be objects");
  }
  for (const json& odd : {json(0), json("true"), json::array(), json::object()}) {
    ExpectRefused(With("overlays", {{{"path", "/o"}, {"persist", odd}}}), "persist");
    ExpectRefused(With("binds", {{{"source", "/data"}, {"readonly", odd}}}), "readonly");
  }
  for (const json& odd : {json(0), json(true), json::array(), json::object()}) {
    ExpectRefused(With("workspace", {{"path", odd}}), "path");
    ExpectRefused(With("workspace", {{"path", "/w"}, {"mode", odd}}), "mode");
    ExpectRefused(With("binds", {{{"source", odd}}}), "source");
    ExpectRefused(With("binds", {{{"source", "/data"}, {"dest", odd}}}), "dest");
    ExpectRefused(With("env_passthrough", {{"mode", odd}}), "mode");
    ExpectRefused(With("env_passthrough", {{"keys", {odd}}}), "keys");
  }
  for (const json& odd : {json(0), json(true), json("A"), json::object()}) {
    ExpectRefused(With("env_passthrough", {{"keys", odd}}), "keys");
  }
}

TEST(IsolatedRequest, Numbers) {
  const auto with = [](const char* name, const std::string& number) {
    return R"({"workspace":{"path":"/w"},")" + std::string(name) + "\":" + number + "}";
  };
  for (const char* name : {"uid", "gid", "idle_timeout_seconds"}) {
    for (const char* odd :
         {"-1", "-0.5", "1.0", "1e3", "4294967296", "9223372036854775807", "9223372036854775808",
          "-9223372036854775809", "18446744073709551616", "18446744073709551617", "1e400",
          "100000000000000000000000000000000000000000000000000", "\"1\"", "01", "+1", "0x1",
          "NaN"}) {
      EXPECT_NE(Refused(with(name, odd)), "") << name << " " << odd;
    }
  }
  // The last id is refused, because -1 means "leave it unchanged".
  for (const char* name : {"uid", "gid"}) EXPECT_NE(Refused(with(name, "4294967295")), "");
  const auto greatest = ParseIsolatedRequest(with("uid", "4294967294"));
  ASSERT_TRUE(greatest);
  EXPECT_EQ(greatest->uid, 4294967294U);
  EXPECT_FALSE(greatest->gid);
  const auto year = ParseIsolatedRequest(with("idle_timeout_seconds", "31536000"));
  ASSERT_TRUE(year);
  EXPECT_EQ(year->idle_seconds, 31536000);
  EXPECT_NE(Refused(with("idle_timeout_seconds", "31536001")), "");
}

TEST(IsolatedRequest, ManyKeys) {
  const auto keys = [](int count) {
    return With("env_passthrough",
                {{"keys", json(std::vector<std::string>(static_cast<size_t>(count), "A"))}});
  };
  EXPECT_EQ(Taken(keys(1024)).env_keys.size(), 1024U);
  ExpectRefused(keys(1025), "too many");
  ExpectRefused(With("env_passthrough", {{"keys", {std::string("A\0B", 3)}}}), "NUL");
}

TEST(IsolatedRequest, DurableWorkspace) {
  const auto durable = [](const json& first) {
    return Taken({{"overlays", {first, {{"path", "/z"}, {"mode", "rw"}}}}}).HasDurableWorkspace();
  };
  EXPECT_TRUE(durable({{"path", "/o"}, {"mode", "rw"}}));
  EXPECT_TRUE(durable({{"path", "/o"}}));
  EXPECT_FALSE(durable({{"path", "/o"}, {"persist", false}}));
  EXPECT_FALSE(durable({{"path", "/o"}, {"mode", "ro"}}));
}

json Told(const json& request) {
  std::string members;
  AppendIsolatedParameters(&members, Taken(request));
  EXPECT_EQ(members[0], ',');
  return json::parse("{" + members.substr(1) + "}");
}

TEST(IsolatedRequest, TellsWhatIsInEffect) {
  EXPECT_EQ(Told(Plain()),
            json({{"profile", "strict"},
                  {"workspace", {{"path", "/w"}, {"mode", "overlay"}}},
                  {"overlays", {{{"path", "/w"}, {"mode", "overlay"}, {"persist", true}}}},
                  {"extra_writable", json::array()},
                  {"binds", json::array()},
                  {"share_net", true},
                  {"env_passthrough", {{"mode", "deny"}, {"keys", json::array()}}},
                  {"uid_mode", "setpriv"},
                  {"idle_timeout_seconds", 0}}));
  const json full = {{"profile", "balanced"},
                     {"overlays",
                      {{{"path", "/a\"\\"}, {"mode", "rw"}},
                       {{"path", "/o"}, {"mode", "overlay"}, {"persist", false}},
                       {{"path", "/r"}, {"mode", "ro"}}}},
                     {"extra_writable", {"/data", "/mnt"}},
                     {"binds",
                      {{{"source", "/mnt/a"}, {"dest", "/b"}, {"readonly", true}},
                       {{"source", "/mnt/c"}, {"dest", "/c"}, {"readonly", false}}}},
                     {"share_net", false},
                     {"env_passthrough", {{"mode", "allow"}, {"keys", {"A", "\""}}}},
                     {"uid", 4294967294},
                     {"gid", 0},
                     {"uid_mode", "setpriv"},
                     {"idle_timeout_seconds", 7}};
  EXPECT_EQ(
      Told(full),
      full);  // the workspace is not listed, because it could not be told from the other overlays
}

std::vector<std::string> Given(const json& passthrough) {
  static const std::vector<std::string> kEntries = {"PLAIN=1",
                                                    "plain=2",
                                                    "X=a=b",
                                                    "MY_API_KEY=s",
                                                    "my_token=s",
                                                    "A_SECRET=s",
                                                    "Db_Password=s",
                                                    "AWS_REGION=s",
                                                    "ali_x=s",
                                                    "ALIYUN_X=s",
                                                    "K8S_X=s",
                                                    "Kube_Config=s",
                                                    "TOKEN_X=1",
                                                    "MY_AWS_X=1",
                                                    "EXECD_ENVS=s",
                                                    "JUPYTER_HOST=s",
                                                    "JUPYTER_TOKEN=s",
                                                    "execd_access_token=s",
                                                    "EXECD_ISOLATION_CONFIG=s",
                                                    "OPENSANDBOX_LIFECYCLE=s",
                                                    "EXECD_LIFECYCLE_CONFIG=s",
                                                    "EXECD_RUNTIME_INIT=s"};
  return IsolatedEnvironment(Taken(With("env_passthrough", passthrough)), kEntries);
}

TEST(IsolatedEnvironment, SecretsAreWithheld) {
  EXPECT_EQ(Given(nullptr),
            (std::vector<std::string>{"PLAIN=1", "plain=2", "X=a=b", "TOKEN_X=1", "MY_AWS_X=1"}));
}

TEST(IsolatedEnvironment, WithKeysJustThose) {
  EXPECT_EQ(Given({{"keys", {"plain", "aws_region", "X=a"}}}),
            (std::vector<std::string>{"X=a=b", "MY_API_KEY=s", "my_token=s", "A_SECRET=s",
                                      "Db_Password=s", "ali_x=s", "ALIYUN_X=s", "K8S_X=s",
                                      "Kube_Config=s", "TOKEN_X=1", "MY_AWS_X=1"}));
}

TEST(IsolatedEnvironment, NothingButWhatIsAllowed) {
  EXPECT_EQ(Given({{"mode", "allow"}}), std::vector<std::string>());
  EXPECT_EQ(Given({{"mode", "allow"}, {"keys", {"plain", "MY_API_KEY", "nope"}}}),
            (std::vector<std::string>{"plain=2", "MY_API_KEY=s"}));
}

TEST(IsolatedEnvironment, WhatIsOursIsNeverGiven) {
  EXPECT_EQ(Given({{"mode", "allow"},
                   {"keys",
                    {"EXECD_ACCESS_TOKEN", "execd_access_token", "JUPYTER_HOST", "JUPYTER_TOKEN",
                     "EXECD_ISOLATION_CONFIG", "EXECD_ENVS", "OPENSANDBOX_LIFECYCLE",
                     "EXECD_LIFECYCLE_CONFIG", "EXECD_RUNTIME_INIT"}}}),
            std::vector<std::string>());
}

TEST(IsolatedRun, Members) {
  const auto run = ParseIsolatedRun(
      R"({"code":"x","timeout_seconds":5,"background":true,"envs":{"A":"b","_9":"","A":"c"}})");
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->code, "x");
  EXPECT_EQ(run->timeout_seconds, 5);
  EXPECT_TRUE(run->background);
  ASSERT_EQ(run->envs.size(), 3U);  // the shell takes the last
  EXPECT_EQ(run->envs[2], std::pair(std::string("A"), std::string("c")));
  const auto least = ParseIsolatedRun(R"({"code":"x","envs":null,"timeout_seconds":null})");
  ASSERT_TRUE(least);
  EXPECT_EQ(least->timeout_seconds, 0);
  EXPECT_FALSE(least->background);
  EXPECT_TRUE(least->envs.empty());
}

TEST(IsolatedRun, RefusesTheRest) {
  for (const char* body : {"",
                           "{}",
                           "[]",
                           R"({"code":""})",
                           R"({"code":null})",
                           R"({"code":1})",
                           R"({"code":"a\u0000b"})",
                           R"({"code":"x","timeout_seconds":-1})",
                           R"({"code":"x","timeout_seconds":0.5})",
                           R"({"code":"x","timeout_seconds":31536001})",
                           R"({"code":"x","timeout_seconds":9223372036854775808})",
                           R"({"code":"x","background":"yes"})",
                           R"({"code":"x","envs":[]})",
                           R"({"code":"x","envs":{"A":1}})",
                           R"({"code":"x","envs":{"A":null}})",
                           R"({"code":"x","envs":{"A":"b\u0000c"}})",
                           R"({"code":"x","envs":{"":"b"}})",
                           R"({"code":"x","envs":{"A=B":"c"}})",
                           R"({"code":"x","envs":{"1A":"b"}})",
                           R"({"code":"x","envs":{"A;true #":"b"}})",
                           R"({"code":"x","envs":{"\u00e9":"b"}})"}) {
    const auto run = ParseIsolatedRun(body);
    ASSERT_FALSE(run) << body;
    EXPECT_EQ(run.error().code(), Code::kInvalidArgument) << body;
  }
}

TEST(IsolatedRequest, LimitsAreTakenOrRefused) {
  const auto with = [](const std::string& limits) {
    return R"({"workspace":{"path":"/w"},"limits":)" + limits + "}";
  };
  const auto none = ParseIsolatedRequest(with("null"));
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->limits.limited());
  const auto all =
      ParseIsolatedRequest(with(R"({"memory_bytes":67108864,"pids":50,"cpu_millis":500})"));
  ASSERT_TRUE(all);
  EXPECT_EQ(all->limits.memory_bytes, 67108864U);
  EXPECT_EQ(all->limits.pids, 50U);
  EXPECT_EQ(all->limits.cpu_millis, 500U);
  std::string told;
  AppendIsolatedParameters(&told, *all);
  EXPECT_TRUE(told.ends_with(R"(,"limits":{"memory_bytes":67108864,"pids":50,"cpu_millis":500})"));
  for (const char* wrong :
       {"3", "[]", R"({"memory":"64Mi"})", R"({"memory_bytes":"67108864"})", R"({"pids":-1})",
        R"({"pids":1})", R"({"memory_bytes":1})", R"({"cpu_millis":1})", R"({"disk_bytes":1})"}) {
    const auto request = ParseIsolatedRequest(with(wrong));
    ASSERT_FALSE(request) << wrong;
    EXPECT_EQ(request.error().code(), Code::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace atl::execd
