// atoll tenant ls|show|check, atoll key add|ls|rm|rotate
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/duration.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/verbs/each.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/columns.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr size_t kMaxTenantsFile = 1 << 20;
constexpr char kForever[] = "never";

// Returns "sandboxes=50 memory=32Gi".
std::string LimitsOf(const json& tenant) {
  std::string text;
  const json max = tenant.value("max", json::object());
  for (const auto& [name, value] : max.items()) {
    if (!value.is_string()) continue;
    text.append(text.empty() ? "" : " ").append(name).append("=").append(value.get<std::string>());
  }
  return text;
}

Status ListTenants(const Settings& settings, const ListStyle& style) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json list, Fetch(api, "/tenants"));
  if (settings.json && style.format.empty()) {
    std::puts(JsonText(list).c_str());
    return {};
  }
  Columns columns({"Name", "Namespace", "Weight", "Limits"});
  for (const auto& tenant : list.value("items", json::array())) {
    columns.Add({TextOf(tenant, "name"), TextOf(tenant, "namespace"), TextOf(tenant, "weight"),
                 LimitsOf(tenant)});
  }
  return columns.Print(style);
}

Status CheckTenants(const Settings& settings, const std::string& path) {
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, path, kMaxTenantsFile));
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  http::Client::Call call;
  call.method = "POST";
  call.target = "/tenants/check";
  call.headers.Set("Content-Type", "application/toml");
  call.body = text;
  ATOLL_ASSIGN(const http::Response response, api.Send(std::move(call)));
  ATOLL_ASSIGN(const json told, ObjectOf(response));
  if (settings.json) {
    std::puts(JsonText(told).c_str());
    return {};
  }
  for (const auto& warning : told.value("warnings", json::array())) {
    if (warning.is_string()) {
      std::fprintf(stderr, "warning: %s\n", Printable(warning.get<std::string>()).c_str());
    }
  }
  std::printf("%s: %zu tenants, %s tests passed\n", Printable(path).c_str(),
              told.value("tenants", json::array()).size(), TextOf(told, "tests").c_str());
  return {};
}

// The options of a new key.
struct KeyOptions {
  std::string tenant, role, name, expires;
  Words routes, images, limits;
};

// Returns the path of the keys: those of the tenant, or of the caller's own, or of the host.
Result<std::string> KeysPath(Api& api, const std::string& tenant) {
  std::string name = tenant;
  if (name.empty()) {
    ATOLL_ASSIGN(const json who, Fetch(api, "/whoami"));
    name = TextOf(who, "tenant");
  }
  return name.empty() ? std::string("/keys") : "/tenants/" + PercentEncode(name) + "/keys";
}

// Prints the key alone on standard output, so that a script can take it, and the rest beside it.
void PrintNewKey(const Settings& settings, const http::Response& response, const json& key) {
  if (settings.json) {
    std::puts(response.body.c_str());
    return;
  }
  const std::string expires = TimeOf(key, "expiresAt");
  std::fprintf(stderr, "key %s, %s%s%s, %s%s; it is shown only now:\n",
               Printable(TextOf(key, "id")).c_str(), Printable(TextOf(key, "role")).c_str(),
               key.contains("tenant") ? " of " : "", Printable(TextOf(key, "tenant")).c_str(),
               expires.empty() ? "never expires" : "expires ", expires.c_str());
  std::puts(Printable(TextOf(key, "key")).c_str());
}

Status AddKey(const Settings& settings, const KeyOptions& options) {
  json body = json::object();
  if (!options.role.empty()) body["role"] = options.role;
  if (!options.name.empty()) body["name"] = options.name;
  if (options.expires == kForever) {
    body["expiresInSeconds"] = 0;
  } else if (!options.expires.empty()) {
    const auto seconds = ParseDuration(options.expires);
    if (!seconds || *seconds == 0) {
      return Wrong("--expires '" + options.expires + "': use a duration such as 90d, or never");
    }
    body["expiresInSeconds"] = *seconds;
  }
  if (!options.routes.empty()) body["routes"] = options.routes;
  if (!options.images.empty()) body["images"] = options.images;
  for (const std::string& limit : options.limits) {
    const size_t equals = limit.find('=');
    if (equals == std::string::npos) {
      return Wrong("--max '" + limit + "': use NAME=VALUE, such as memory=4Gi");
    }
    body["max"][limit.substr(0, equals)] = limit.substr(equals + 1);
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string path, KeysPath(api, options.tenant));
  ATOLL_ASSIGN(const http::Response response, api.Send("POST", path, JsonText(body)));
  ATOLL_ASSIGN(const json key, ObjectOf(response));
  PrintNewKey(settings, response, key);
  return {};
}

Status ListKeys(const Settings& settings, const std::string& tenant, const ListStyle& style) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string path, KeysPath(api, tenant));
  ATOLL_ASSIGN(const json list, Fetch(api, path));
  if (settings.json && style.format.empty()) {
    std::puts(JsonText(list).c_str());
    return {};
  }
  Columns columns({"Id", "Role", "State", "Name", "Expires", "LastUsed"});
  for (const auto& key : list.value("items", json::array())) {
    const std::string expires = TimeOf(key, "expiresAt");
    columns.Add({TextOf(key, "id"), TextOf(key, "role"), TextOf(key, "state"), TextOf(key, "name"),
                 expires.empty() ? kForever : expires, TimeOf(key, "lastUsedAt")});
  }
  return columns.Print(style);
}

Status RemoveKeys(const Settings& settings, const std::string& tenant, const Words& ids) {
  std::string path;
  {
    ATOLL_ASSIGN(Api api, Api::Connect(settings));
    ATOLL_ASSIGN(path, KeysPath(api, tenant));
  }
  return ForEachOf(settings, path + "/", ids, "DELETE");
}

Status RotateKey(const Settings& settings, const std::string& tenant, const std::string& id,
                 const std::string& grace) {
  json body = json::object();
  if (!grace.empty()) {
    const auto seconds = ParseDuration(grace);
    if (!seconds) return Wrong("--grace '" + grace + "': use a duration such as 24h");
    body["grace"] = std::to_string(*seconds) + "s";
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string path, KeysPath(api, tenant));
  ATOLL_ASSIGN(const http::Response response,
               api.Send("POST", path + "/" + PercentEncode(id) + "/rotate", JsonText(body)));
  ATOLL_ASSIGN(const json key, ObjectOf(response));
  PrintNewKey(settings, response, key);
  return {};
}

}  // namespace

void AddTenantVerbs(Verb& root, const Settings& settings) {
  struct Options {
    KeyOptions key;
    std::string file, id, grace;
    ListStyle style;
    Words names;
  };
  const auto options = std::make_shared<Options>();
  Verb& tenants = root.Add("tenant", "Teams that share the host");
  TakesListStyle(tenants.Add("ls,list", "List the tenants that you may see"), &options->style,
                 "Only names", "{{.Name}} {{.Limits}}")
      .Does([options, &settings] { return ListTenants(settings, options->style); });
  tenants.Add("show,inspect", "Tenants with their limits and rules, as JSON")
      .Takes(Argument{"TENANT", "Tenants as 'atoll tenant ls' shows them", &options->names})
      .Does(
          [options, &settings] { return ForEachOf(settings, "/tenants/", options->names, "GET"); });
  tenants.Add("check", "Check a tenants' file, and run its [[tests]], without using it")
      .Takes(Argument{"FILE", "A file like /etc/atoll/tenants.toml", &options->file})
      .Does([options, &settings] { return CheckTenants(settings, options->file); });

  Verb& keys = root.Add("key", "API keys of tenants and of the host");
  const Option tenant = {"--tenant", "TENANT",
                         "The tenant of the key; else your own, or the host if you have none",
                         &options->key.tenant};
  keys.Add("add,create", "Make a key; it is printed once and stored nowhere")
      .Takes(tenant)
      .Takes(Option{"--role", "ROLE",
                    "viewer or developer of a tenant; operator, auditor or admin of the host",
                    &options->key.role})
      .Takes(Option{"--name", "NAME", "A note for 'atoll key ls'", &options->key.name})
      .Takes(Option{"--expires", "DURATION", "How long it lives, or 'never'; else 90d",
                    &options->key.expires})
      .Takes(Option{"--route", "ROUTE", "Only this route, as 'GET /metrics'; * for any characters",
                    &options->key.routes})
      .Takes(Option{"--image", "RULE", "Only this image, as 'python:*'", &options->key.images})
      .Takes(Option{"--max", "NAME=VALUE", "A lower limit than the tenant's, as memory=4Gi",
                    &options->key.limits})
      .Says(
          "Examples:\n"
          "  atoll key add --tenant red --role developer --name ci\n"
          "  atoll key add --role admin --expires 30d\n"
          "  atoll key add --role operator --route 'GET /metrics' --expires never")
      .Does([options, &settings] { return AddKey(settings, options->key); });
  TakesListStyle(keys.Add("ls,list", "List keys, without their secrets").Takes(tenant),
                 &options->style, "Only ids", "{{.Id}} {{.Role}}")
      .Does(
          [options, &settings] { return ListKeys(settings, options->key.tenant, options->style); });
  keys.Add("rm,revoke", "Revoke keys; what they have opened ends")
      .Takes(tenant)
      .Takes(Argument{"KEY", "Ids as 'atoll key ls' shows them", &options->names})
      .Does([options, &settings] {
        return RemoveKeys(settings, options->key.tenant, options->names);
      });
  keys.Add("rotate", "Make a key's successor, and end the key")
      .Takes(tenant)
      .Takes(Option{"--grace", "DURATION", "How long the old key works beside the new one",
                    &options->grace})
      .Takes(Argument{"KEY", "Its id", &options->id})
      .Does([options, &settings] {
        return RotateKey(settings, options->key.tenant, options->id, options->grace);
      });
}

}  // namespace atl::cli
