#include "runtime/api/requests/create_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/api/gate/validation.h"

namespace atl::api {
namespace {

using nlohmann::json;

json Good() {
  return {{"image", {{"uri", "busybox"}}},
          {"entrypoint", {"tail", "-f", "/dev/null"}},
          {"resourceLimits", json::object()}};
}

Parsed<CreateRequest> Parse(const json& body) {
  return ParseCreateRequest(body.dump());
}

// Returns the first problem of a refusal: "type loc".
std::string ProblemOf(const Parsed<CreateRequest>& parsed) {
  if (parsed) return "accepted";
  if (parsed.error().status != 422) return "status " + std::to_string(parsed.error().status);
  const json body = json::parse(parsed.error().body);
  EXPECT_TRUE(body.at("code").is_string() && body.at("message").is_string());
  const json& first = body.at("detail").at(0);
  EXPECT_TRUE(first.contains("msg") && first.contains("input"));
  return first.at("type").get<std::string>() + " " + first.at("loc").dump();
}

// A body of 4 MiB can have a million problems: what is not shown is not looked at.
TEST(CreateRequest, StopsAtTheProblemsThatItShows) {
  const json numbers(100'000, 1);
  Problems problems;
  std::vector<std::string> words;
  EXPECT_FALSE(Field(numbers, {"body", "entrypoint"}, &problems).Strings(1, &words));
  EXPECT_EQ(words.size(), Problems::kMost);
  json pairs = json::object();
  for (int i = 0; i < 1000; ++i) pairs[std::to_string(i)] = i;
  Problems of_pairs;
  std::map<std::string, std::string> map;
  EXPECT_FALSE(Field(pairs, {"body", "env"}, &of_pairs).StringMap(false, &map));
  EXPECT_EQ(map.size(), Problems::kMost);

  json body = Good();
  body["entrypoint"] = numbers;
  body.erase("resourceLimits");
  const auto parsed = Parse(body);
  ASSERT_FALSE(parsed);
  const json told = json::parse(parsed.error().body);
  EXPECT_EQ(told.at("detail").size(), Problems::kMost);
  EXPECT_TRUE(told.at("message").get<std::string>().ends_with("(and at least 19 more)")) << told;
}

TEST(CreateRequest, DoesNotWriteALargeInputDown) {
  json body = Good();
  body["timeout"] = json(100'000, "x");
  auto parsed = Parse(body);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(json::parse(parsed.error().body).at("detail").at(0).at("input"),
            "(more than 1024 bytes)");
  body["timeout"] = {{"a", {1, "two", nullptr}}};
  parsed = Parse(body);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(json::parse(parsed.error().body).at("detail").at(0).at("input"), body["timeout"]);
}

// Returns "status code" of a refusal.
std::string Refusal(const Parsed<CreateRequest>& parsed) {
  if (parsed) return "accepted";
  const json body = json::parse(parsed.error().body);
  EXPECT_FALSE(body.at("message").get<std::string>().empty());
  return std::to_string(parsed.error().status) + " " + body.at("code").get<std::string>();
}

TEST(CreateRequest, TakesWhatTheSdksSend) {
  json body = Good();
  body["timeout"] = 600;
  body["env"] = {{"A", "1"}, {"DROPPED", nullptr}};
  body["metadata"] = {{"team", "ml"}};
  body["resourceLimits"] = {{"cpu", "1"}, {"memory", "2Gi"}};
  body["platform"] = {{"os", " Linux"}, {"arch", "AMD64 "}};
  body["extensions"] = {{"unknown.key", "x"}};
  body["somethingNew"] = {1, 2};
  body["networkPolicy"] = nullptr;
  body["volumes"] = json::array();
  body["secureAccess"] = false;
  body["credentialProxy"] = {{"enabled", false}};
  body["snapshotId"] = nullptr;
  const auto parsed = Parse(body);
  ASSERT_TRUE(parsed) << parsed.error().body;
  EXPECT_EQ(parsed->wanted.spec.image, "busybox");
  EXPECT_EQ(parsed->wanted.timeout_seconds, 600);
  EXPECT_EQ(parsed->wanted.spec.env, (std::map<std::string, std::string>{{"A", "1"}}));
  EXPECT_EQ(parsed->wanted.metadata.at("team"), "ml");
  EXPECT_EQ(parsed->wanted.resource_limits.at("memory"), "2Gi");
  EXPECT_EQ(parsed->wanted.spec.platform->os, "linux");
  EXPECT_EQ(parsed->wanted.spec.platform->arch, "amd64");
  EXPECT_EQ(parsed->wanted.spec.entrypoint.size(), 3U);
}

TEST(CreateRequest, TimeoutForms) {
  const std::pair<json, int64_t> good[] = {{60, 60}, {"3600", 3600}, {3600.0, 3600}, {" 90 ", 90}};
  for (const auto& [timeout, seconds] : good) {
    json body = Good();
    body["timeout"] = timeout;
    const auto parsed = Parse(body);
    ASSERT_TRUE(parsed) << timeout;
    EXPECT_EQ(parsed->wanted.timeout_seconds, seconds) << timeout;
  }
  json body = Good();
  body["timeout"] = nullptr;
  EXPECT_FALSE(Parse(body)->wanted.timeout_seconds);
  const std::pair<json, const char*> bad[] = {
      {59, "greater_than_equal"},
      {-1, "greater_than_equal"},
      {3600.5, "int_from_float"},
      {"soon", "int_parsing"},
      {"", "int_parsing"},
      {true, "int_type"},
      {json::array({60}), "int_type"},
      {1e300, "int_from_float"},
      {18446744073709551615ULL, "int_parsing_size"},
  };
  for (const auto& [timeout, type] : bad) {
    body["timeout"] = timeout;
    EXPECT_EQ(ProblemOf(Parse(body)), std::string(type) + R"( ["body","timeout"])") << timeout;
  }
}

TEST(CreateRequest, FormErrors) {
  const std::tuple<const char*, json, const char*> cases[] = {
      {"image", "busybox", R"(model_attributes_type ["body","image"])"},
      {"image", json::object(), R"(missing ["body","image","uri"])"},
      {"image", {{"uri", 3}}, R"(string_type ["body","image","uri"])"},
      {"image",
       {{"uri", "x"}, {"auth", {{"username", "u"}}}},
       R"(missing ["body","image","auth","password"])"},
      {"entrypoint", "sh", R"(list_type ["body","entrypoint"])"},
      {"entrypoint", json::array(), R"(too_short ["body","entrypoint"])"},
      {"entrypoint", {"sh", 1}, R"(string_type ["body","entrypoint",1])"},
      {"entrypoint", {"sh", nullptr}, R"(string_type ["body","entrypoint",1])"},
      {"entrypoint", nullptr, R"(value_error ["body"])"},
      {"resourceLimits", nullptr, R"(value_error ["body"])"},
      {"resourceLimits", json::array(), R"(dict_type ["body","resourceLimits"])"},
      {"resourceLimits", {{"cpu", 1}}, R"(string_type ["body","resourceLimits","cpu"])"},
      {"env", {{"A", 1}}, R"(string_type ["body","env","A"])"},
      {"env", "A=1", R"(dict_type ["body","env"])"},
      {"metadata", {{"A", nullptr}}, R"(string_type ["body","metadata","A"])"},
      {"platform", {{"os", "linux"}}, R"(missing ["body","platform","arch"])"},
      {"snapshotId", 1, R"(string_type ["body","snapshotId"])"},
      {"snapshotId", "snap", R"(value_error ["body"])"},  // and an image
      {"networkPolicy", "deny", R"(model_attributes_type ["body","networkPolicy"])"},
      {"volumes", "x", R"(list_type ["body","volumes"])"},
      {"secureAccess", "maybe", R"(bool_type ["body","secureAccess"])"},
      {"credentialProxy", {{"enabled", true}}, R"(value_error ["body"])"},
      {"extensions", {{"k", 1}}, R"(string_type ["body","extensions","k"])"},
  };
  for (const auto& [name, value, expected] : cases) {
    json body = Good();
    body[name] = value;
    EXPECT_EQ(ProblemOf(Parse(body)), expected) << name << " " << value;
  }
  json none = Good();
  none.erase("image");
  EXPECT_EQ(ProblemOf(Parse(none)), R"(value_error ["body"])");
}

TEST(CreateRequest, FromASnapshot) {
  const json body = {{"snapshotId", "snap"}, {"resourceLimits", json::object()}};
  const auto request = Parse(body);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->wanted.spec.snapshot_id, "snap");
  EXPECT_EQ(request->wanted.spec.image, "");
  EXPECT_EQ(request->wanted.spec.entrypoint, (std::vector<std::string>{"tail", "-f", "/dev/null"}));
  json own = body;
  own["entrypoint"] = {"true"};
  EXPECT_EQ(Parse(own)->wanted.spec.entrypoint, (std::vector<std::string>{"true"}));
  json blank = body;
  blank["snapshotId"] = " ";
  EXPECT_EQ(ProblemOf(Parse(blank)), R"(value_error ["body"])");
}

TEST(CreateRequest, OfAPool) {
  const json body = {{"extensions", {{"poolRef", "p"}}}};
  const auto request = Parse(body);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->wanted.spec.extensions.at("poolRef"), "p");
  EXPECT_EQ(request->wanted.spec.image, "");
  EXPECT_EQ(request->wanted.spec.entrypoint, (std::vector<std::string>{"tail", "-f", "/dev/null"}));
  json snapshot = body;
  snapshot["snapshotId"] = "s";
  EXPECT_EQ(ProblemOf(Parse(snapshot)), R"(value_error ["body"])");
}

TEST(CreateRequest, CredentialProxy) {
  json body = Good();
  EXPECT_FALSE(Parse(body)->wanted.credential_proxy);
  body["credentialProxy"] = {{"enabled", true}};
  EXPECT_EQ(ProblemOf(Parse(body)), R"(value_error ["body"])") << "without a policy";
  body["networkPolicy"] = json::object();
  EXPECT_TRUE(Parse(body)->wanted.credential_proxy);
  body["extensions"] = {{"poolRef", "p"}};
  EXPECT_EQ(ProblemOf(Parse(body)), R"(value_error ["body"])") << "of a pool";
  body.erase("extensions");
  body["credentialProxy"] = {{"enabled", false}};
  EXPECT_FALSE(Parse(body)->wanted.credential_proxy);
}

TEST(CreateRequest, NetworkPolicy) {
  json body = Good();
  EXPECT_FALSE(Parse(body)->wanted.spec.network.policy);
  body["networkPolicy"] = json::object();
  EXPECT_EQ(Parse(body)->wanted.spec.network.policy->default_action, netpolicy::Action::kDeny);
  body["networkPolicy"] = {{"defaultAction", "allow"},
                           {"egress", {{{"action", "deny"}, {"target", "*.example.com"}}}}};
  const auto parsed = Parse(body);
  EXPECT_EQ(parsed->wanted.spec.network.policy->default_action, netpolicy::Action::kAllow);
  EXPECT_EQ(parsed->wanted.spec.network.policy->rules.at(0).parsed.name, "example.com");
  body["networkPolicy"]["egress"][0]["target"] = "a b";
  EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER");
}

TEST(CreateRequest, NetworkExtensions) {
  json body = Good();
  body["extensions"] = {
      {"network", "web"}, {"network.hostname", "db"}, {"network.bandwidth", "8M"}};
  const auto parsed = Parse(body);
  EXPECT_EQ(parsed->wanted.spec.network.network, "web");
  EXPECT_EQ(parsed->wanted.spec.network.hostname, "db");
  EXPECT_EQ(parsed->wanted.spec.network.bytes_per_second, 1'000'000U);
  for (const char* wrong : {"fast", "0", "-1", "1X", "8 M", "99999999999"}) {
    body["extensions"]["network.bandwidth"] = wrong;
    EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER") << wrong;
  }
}

TEST(CreateRequest, Extensions) {
  json body = Good();
  body["extensions"] = {{"access.renew.extend.seconds", " 300 "},
                        {"readOnlyRootFilesystem", "true"},
                        {"unknown", "x"}};
  body["secureAccess"] = true;
  const auto parsed = Parse(body);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->wanted.spec.renew_by_seconds, 300);
  EXPECT_TRUE(parsed->wanted.spec.readonly_root);
  EXPECT_TRUE(parsed->wanted.secure_access);
  for (const char* bad : {"", "299", "86401", "300.0", "x", "-300", "99999999999999999999"}) {
    body["extensions"] = {{"access.renew.extend.seconds", bad}};
    EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER") << bad;
  }
  for (const char* name : {"readOnlyRootFilesystem", "uniqueName"}) {
    body["extensions"] = {{name, "yes"}};
    EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER") << name;
  }
}

TEST(CreateRequest, ANameOfItsOwn) {
  json body = Good();
  EXPECT_FALSE(Parse(body)->wanted.spec.unique_name);
  body["metadata"] = {{"name", "web"}};
  EXPECT_FALSE(Parse(body)->wanted.spec.unique_name);
  body["extensions"] = {{"uniqueName", "true"}};
  EXPECT_TRUE(Parse(body)->wanted.spec.unique_name);
  body["metadata"] = {{"names", "web"}};
  EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER");
}

TEST(CreateRequest, PauseMemory) {
  json body = Good();
  EXPECT_FALSE(Parse(body)->wanted.spec.reclaims);
  body["extensions"] = {{"pause.memory", "reclaim"}};
  EXPECT_EQ(Parse(body)->wanted.spec.reclaims, true);
  body["extensions"] = {{"pause.memory", "keep"}};
  EXPECT_EQ(Parse(body)->wanted.spec.reclaims, false);
  for (const char* bad : {"", "drop", "true"}) {
    body["extensions"] = {{"pause.memory", bad}};
    EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER") << bad;
  }
}

TEST(CreateRequest, Isolation) {
  json body = Good();
  EXPECT_EQ(Parse(body)->wanted.isolation, "");
  body["extensions"] = {{"isolation", "gvisor"}};
  EXPECT_EQ(Parse(body)->wanted.isolation, "gvisor");
  body["extensions"] = {{"isolation", "kata"}};
  EXPECT_EQ(Parse(body)->wanted.isolation, "microvm");
  for (const char* bad : {"", "runc", "none"}) {
    body["extensions"] = {{"isolation", bad}};
    EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER") << bad;
  }
}

TEST(CreateRequest, Idle) {
  json body = Good();
  EXPECT_FALSE(Parse(body)->wanted.spec.idle);
  body["extensions"] = {{"idle.after", "300"}};
  EXPECT_EQ(Parse(body)->wanted.spec.idle, (sandbox::IdlePolicy{300, false}));
  body["extensions"]["idle.action"] = "pause";
  EXPECT_EQ(Parse(body)->wanted.spec.idle, (sandbox::IdlePolicy{300, false}));
  body["extensions"]["idle.action"] = "end";
  EXPECT_EQ(Parse(body)->wanted.spec.idle, (sandbox::IdlePolicy{300, true}));
  body["extensions"]["idle.action"] = "sleep";
  EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER");
  body["extensions"] = {{"idle.action", "end"}};
  EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER");
  for (const char* bad : {"", "-1", "1.5", "5m", " 5", "31536001", "99999999999999999999"}) {
    body["extensions"] = {{"idle.after", bad}};
    EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER") << bad;
  }
  // The request's own value replaces the operator's.
  body["extensions"] = {{"idle.after", "0"}};
  EXPECT_EQ(Parse(body)->wanted.spec.idle, sandbox::IdlePolicy());
}

TEST(CreateRequest, WithoutAProgram) {
  json body = Good();
  body["extensions"] = {{"entrypoint", "none"}};
  EXPECT_EQ(ProblemOf(Parse(body)), R"(value_error ["body"])");  // and an image, too
  body.erase("entrypoint");
  const auto parsed = Parse(body);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->wanted.spec.entrypoint, std::vector<std::string>{});
  const auto restored = Parse({{"snapshotId", "snap"},
                               {"resourceLimits", json::object()},
                               {"extensions", {{"entrypoint", "none"}}}});
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->wanted.spec.entrypoint, std::vector<std::string>{});
  body["extensions"] = {{"entrypoint", "sh"}};
  EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER");
}

TEST(CreateRequest, NotJson) {
  for (const char* text : {"", "{", "[1", "{\"a\":}", "nope", "\"\xff\"", "{} {}"}) {
    const auto parsed = ParseCreateRequest(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().status, 422) << text;
  }
  for (const char* text : {"[]", "3", "null", "\"x\""}) {
    const auto parsed = ParseCreateRequest(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().status, 422) << text;
  }
  EXPECT_EQ(ProblemOf(ParseCreateRequest("{\"timeout\": 1e999}")), R"(json_invalid ["body",0])");
}

TEST(CreateRequest, DeepNestingIsRefusedBeforeItIsParsed) {
  const std::string deep =
      "{\"x\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  EXPECT_EQ(ProblemOf(ParseCreateRequest(deep)), R"(json_invalid ["body",0])");
  // Brackets in a string do not count as nesting.
  json body = Good();
  body["metadata"] = {{"x", "1"}};
  body["note"] = std::string(100, '[') + "\\\"";
  EXPECT_TRUE(Parse(body));
}

TEST(CreateRequest, ARefusalIsNoAmplifier) {
  json body = Good();
  body["env"] = json::object();
  for (int i = 0; i < 10000; ++i) body["env"]["K" + std::to_string(i)] = i;
  const auto parsed = Parse(body);
  ASSERT_FALSE(parsed);
  EXPECT_LT(parsed.error().body.size(), 16384U);
}

TEST(CreateRequest, OneLineEntrypointIsSplit) {
  json body = Good();
  body["entrypoint"] = {"sh -c 'echo \"a b\"' x\\ y"};
  auto parsed = Parse(body);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->wanted.spec.entrypoint,
            (std::vector<std::string>{"sh", "-c", "echo \"a b\"", "x y"}));
  EXPECT_EQ(parsed->entrypoint.size(), 1U);  // unchanged from the request
  for (const char* bad : {"sh -c 'x", "sh \"", "a b\\", "  "}) {
    body["entrypoint"] = {bad};
    EXPECT_EQ(Refusal(Parse(body)), "400 DOCKER::INVALID_ENTRYPOINT") << bad;
  }
  body["entrypoint"] = {"a b", "c d"};
  EXPECT_EQ(Parse(body)->wanted.spec.entrypoint.size(), 2U);
}

TEST(CreateRequest, MetadataRules) {
  const auto with = [](const std::string& key, const std::string& value) {
    json body = Good();
    body["metadata"] = {{key, value}};
    return Refusal(Parse(body));
  };
  const std::string name63(63, 'a');
  for (const auto& key : {std::string("a"), std::string("A-b_c.d"), name63, "example.com/" + name63,
                          std::string("a.b-c.d/x")}) {
    EXPECT_EQ(with(key, "v"), "accepted") << key;
  }
  for (const auto& key :
       {std::string(""), name63 + "a", std::string("-a"), std::string("a-"), std::string("a b"),
        std::string("/a"), std::string("a/"), std::string("Ex.com/a"), std::string("a..b/c"),
        std::string("opensandbox.io/x"), std::string("a/b/c"), std::string("-a.b/c"),
        std::string(254, 'a') + "/x"}) {
    EXPECT_EQ(with(key, "v"), "400 SANDBOX::INVALID_METADATA_LABEL") << key;
  }
  for (const auto& value : {std::string(""), std::string("v"), name63, std::string("a_b.c-d")}) {
    EXPECT_EQ(with("k", value), "accepted") << value;
  }
  for (const auto& value :
       {name63 + "a", std::string("a b"), std::string(".a"), std::string("\xc3\xa9")}) {
    EXPECT_EQ(with("k", value), "400 SANDBOX::INVALID_METADATA_LABEL") << value;
  }
}

TEST(CreateRequest, MetadataIsBounded) {
  json body = Good();
  for (size_t i = 0; i < sandbox::kMaxMetadata; ++i) body["metadata"][std::to_string(i)] = "v";
  EXPECT_EQ(Refusal(Parse(body)), "accepted");
  body["metadata"]["more"] = "v";
  EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_METADATA_LABEL");
}

TEST(CreateRequest, ExtensionsAreKeptAndBounded) {
  json body = Good();
  body["extensions"] = {{"a", "b"}, {"later", std::string(sandbox::kMaxExtensions - 7, 'x')}};
  EXPECT_EQ(Parse(body)->wanted.spec.extensions.at("a"), "b");
  body["extensions"]["a"] = "bc";
  EXPECT_EQ(Refusal(Parse(body)), "400 SANDBOX::INVALID_PARAMETER");
}

TEST(CreateRequest, Templates) {
  json body = {{"templateId", "tpl-x"}, {"timeout", 60}, {"metadata", json::object()}};
  EXPECT_EQ(Parse(body)->wanted.spec.template_id, "tpl-x");
  EXPECT_TRUE(Parse(body)->wanted.spec.entrypoint.empty());
  for (const char* name : {"poolRef", "entrypoint", "readOnlyRootFilesystem", "network",
                           "network.hostname", "network.bandwidth"}) {
    json both = body;
    both["extensions"] = {{name, "x"}};
    EXPECT_TRUE(Refusal(Parse(both)).starts_with("422 ")) << name;
  }
  for (const char* name :
       {"image", "snapshotId", "entrypoint", "env", "resourceLimits", "resourceRequests", "volumes",
        "platform", "credentialProxy", "lifecycle"}) {
    json both = body;
    both[name] = Good().value(name, json::object());
    EXPECT_TRUE(Refusal(Parse(both)).starts_with("422 ")) << name;
  }
  body["secureAccess"] = true;
  EXPECT_TRUE(Refusal(Parse(body)).starts_with("422 "));
  body["secureAccess"] = false;
  EXPECT_TRUE(Parse(body));
  body.erase("timeout");
  EXPECT_TRUE(Refusal(Parse(body)).starts_with("422 "));
}

TEST(CreateRequest, Hooks) {
  json body = Good();
  body["lifecycle"] = {{"preStart", {{"command", {"a", ""}}}},
                       {"periodic",
                        {{{"name", " sync "},
                          {"schedule", "@every 5s"},
                          {"command", {"b"}},
                          {"timeoutSeconds", 300}}}}};
  const auto parsed = Parse(body);
  ASSERT_TRUE(parsed);
  const std::vector<wire::Hook> wanted = {{"preStart", "", {"a", ""}, 60},
                                          {"sync", "@every 5s", {"b"}, 300}};
  EXPECT_EQ(parsed->wanted.spec.hooks, wanted);
  body["resourceRequests"] = {{"cpu", "1"}};
  EXPECT_EQ(Parse(body)->wanted.resource_requests.at("cpu"), "1");
  body["extensions"] = {{"poolRef", "p"}};
  EXPECT_TRUE(Refusal(Parse(body)).starts_with("422 "));
  body.erase("extensions");
  body["lifecycle"]["preStart"]["shell"] = true;
  EXPECT_TRUE(Refusal(Parse(body)).starts_with("422 "));
  body.erase("lifecycle");
  body["env"] = {{"OPENSANDBOX_LIFECYCLE", "{}"}};
  EXPECT_TRUE(Refusal(Parse(body)).starts_with("422 "));
}

TEST(CreateRequest, SettingsOfUpstreamsEgressStayOutside) {
  using Env = std::map<std::string, std::string>;
  json body = {
      {"image", {{"uri", "a"}}}, {"entrypoint", {"sh"}}, {"resourceLimits", json::object()}};
  body["env"] = {{"A", "b"},
                 {"OPENSANDBOX_EGRESS_LOG_LEVEL", "debug"},
                 {"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "1"}};
  EXPECT_EQ(Parse(body)->wanted.spec.env, (Env{{"A", "b"}}));
  body["networkPolicy"] = {{"defaultAction", "deny"}};
  EXPECT_EQ(Parse(body)->wanted.spec.env,
            (Env{{"A", "b"}, {"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "1"}}));
  body["env"]["OPENSANDBOX_EGRESS_FOO"] = "x";
  EXPECT_TRUE(Refusal(Parse(body)).starts_with("400 ")) << Refusal(Parse(body));
  body.erase("networkPolicy");
  EXPECT_EQ(Parse(body)->wanted.spec.env, (Env{{"A", "b"}}));
}

TEST(RenewRequest, Forms) {
  const std::pair<const char*, int64_t> good[] = {
      {R"({"expiresAt":"2025-11-16T14:30:45Z"})", 1763303445000},
      {R"({"expiresAt":"2025-11-16T14:30:45.5Z"})", 1763303445500},
      {R"({"expiresAt":"2025-11-16T14:30:45.123456+00:00"})", 1763303445123},
      {R"({"expiresAt":"2025-11-16T15:30:45+01:00"})", 1763303445000},
      {R"({"expiresAt":"2025-11-16T06:30:45-0800"})", 1763303445000},
      {R"({"expiresAt":"2025-11-16 14:30:45"})", 1763303445000},
      {R"({"expiresAt":1763303445})", 1763303445000},
      {R"({"expiresAt":1763303445.5})", 1763303445500},
      {R"({"expiresAt":1763303445000})", 1763303445000},
  };
  for (const auto& [text, expected] : good) {
    const auto parsed = ParseRenewRequest(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, expected) << text;
  }
  for (const char* text :
       {"{}", "[]", R"({"expiresAt":null})", R"({"expiresAt":"soon"})", R"({"expiresAt":true})",
        R"({"expiresAt":"2025-02-30T00:00:00Z"})", R"({"expiresAt":"2025-11-16T25:00:00Z"})",
        R"({"expiresAt":"2025-11-16T14:30:45+99:00"})", R"({"expiresAt":"2025-11-16T14:30:45Zx"})",
        R"({"expiresAt":1e300})", R"({"expiresAt":"2025-11-16T14:30:45."})"}) {
    const auto parsed = ParseRenewRequest(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().status, 422) << text;
  }
}

}  // namespace
}  // namespace atl::api
