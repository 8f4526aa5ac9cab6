// atoll inspect|pause|resume|renew|endpoint
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>

#include "tools/atoll/api.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

using nlohmann::json;
using Ids = std::vector<std::string>;
constexpr const char* kWhich = "Sandboxes: ids, starts of ids, or names";

std::string PathOf(const std::string& id) {
  return "/sandboxes/" + PercentEncode(id);
}

// Does it for each; one that fails does not keep the others.
Status ForEach(const Settings& settings, const Ids& given,
               const std::function<Status(Api&, const std::string& id)>& act) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  Status first_error;
  for (const std::string& name : given) {
    const auto id = ResolveId(api, name);
    Status done = id ? act(api, *id) : Status(Fail(id.error()));
    if (done) continue;
    if (!first_error) Report(first_error);
    first_error = std::move(done);
  }
  return first_error;
}

Status Inspect(const Settings& settings, const Ids& ids) {
  json all = json::array();
  const Status done = ForEach(settings, ids, [&all](Api& api, const std::string& id) -> Status {
    ATOLL_ASSIGN(const http::Response response, api.Send("GET", PathOf(id)));
    all.push_back(json::parse(response.body, nullptr, false));
    return {};
  });
  // What a sandbox's maker wrote into it stays within JSON's escapes.
  std::puts(all.dump(settings.json ? -1 : 2, ' ', true, json::error_handler_t::replace).c_str());
  return done;
}

// POST …/WHAT, then the id, as docker prints it.
Status Post(const Settings& settings, const Ids& ids, const std::string& what) {
  return ForEach(settings, ids, [&](Api& api, const std::string& id) -> Status {
    ATOLL_TRY(api.Send("POST", PathOf(id) + what));
    if (!settings.json) std::puts(id.c_str());
    return {};
  });
}

Status Renew(const Settings& settings, const std::string& given, int seconds) {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  const std::time_t until = now.tv_sec + seconds;
  std::tm utc{};
  gmtime_r(&until, &utc);
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  const json body = {{"expiresAt", std::string(text, size)}};
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(const http::Response response,
               api.Send("POST", PathOf(id) + "/renew-expiration", body.dump()));
  const auto renewed = json::parse(response.body, nullptr, false);
  std::puts(settings.json || !renewed.is_object()
                ? response.body.c_str()
                : Printable(renewed.value("expiresAt", "")).c_str());
  return {};
}

Status Endpoint(const Settings& settings, const std::string& given, int port) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(const http::Response response,
               api.Send("GET", PathOf(id) + "/endpoints/" + std::to_string(port)));
  if (settings.json) {
    std::puts(response.body.c_str());
    return {};
  }
  const auto endpoint = json::parse(response.body, nullptr, false);
  if (!endpoint.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
  std::printf("http://%s\n", Printable(endpoint.value("endpoint", "")).c_str());
  for (const auto& [name, value] : endpoint.value("headers", json::object()).items()) {
    if (!value.is_string()) continue;
    std::printf("%s: %s\n", Printable(name).c_str(), Printable(value.get<std::string>()).c_str());
  }
  return {};
}

void AddMany(CLI::App& app, const Settings& settings, int* exit_code, const char* name,
             const char* what, std::function<Status(const Settings&, const Ids&)> act) {
  CLI::App* verb = app.add_subcommand(name, what);
  const auto ids = std::make_shared<Ids>();
  verb->add_option("ID", *ids, kWhich)->required();
  verb->callback([ids, act = std::move(act), &settings, exit_code] {
    *exit_code = Report(act(settings, *ids));
  });
}

}  // namespace

void AddLifecycleVerbs(CLI::App& app, const Settings& settings, int* exit_code) {
  AddMany(app, settings, exit_code, "inspect", "Everything the server tells of sandboxes, as JSON",
          Inspect);
  AddMany(app, settings, exit_code, "pause", "Stop all processes of sandboxes where they are",
          [](const Settings& s, const Ids& ids) { return Post(s, ids, "/pause"); });
  AddMany(app, settings, exit_code, "resume", "Let paused sandboxes go on",
          [](const Settings& s, const Ids& ids) { return Post(s, ids, "/resume"); });

  struct One {
    std::string id;
    int number = 0;
  };
  CLI::App* renew = app.add_subcommand("renew", "Move a sandbox's end");
  const auto renewal = std::make_shared<One>(One{"", 3600});
  renew->add_option("ID", renewal->id, "Sandbox: its id, the start of it, or its name")->required();
  renew->add_option("--timeout", renewal->number, "Seconds from now until it is removed")
      ->capture_default_str()
      ->check(CLI::Range(1, 10 * 365 * 86400));
  renew->callback([renewal, &settings, exit_code] {
    *exit_code = Report(Renew(settings, renewal->id, renewal->number));
  });

  CLI::App* endpoint = app.add_subcommand("endpoint", "Where a port of a sandbox is reached");
  const auto address = std::make_shared<One>();
  endpoint->add_option("ID", address->id, "Sandbox: its id, the start of it, or its name")
      ->required();
  endpoint->add_option("PORT", address->number, "Port inside")
      ->required()
      ->check(CLI::Range(1, 65535));
  endpoint->footer("Prints the address, then the headers that a request to it needs, one a line.");
  endpoint->callback([address, &settings, exit_code] {
    *exit_code = Report(Endpoint(settings, address->id, address->number));
  });
}

}  // namespace atl::cli
