// atoll inspect|pause|resume|renew
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/guard.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/report.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/image_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

std::string PathOf(const std::string& id) {
  return "/sandboxes/" + PercentEncode(id);
}

// Returns all that the server knows: the sandbox, its details, its network and its disk use; or
// what the history has of it.
Result<json> Everything(Api& api, const std::string& id) {
  auto found = Fetch(api, PathOf(id));
  if (!found && found.error().code() == Code::kNotFound) {
    if (auto past = Fetch(api, "/history/" + PercentEncode(id))) return past;
  }
  ATOLL_ASSIGN(json sandbox, std::move(found));
  ATOLL_ASSIGN(const json details, Fetch(api, PathOf(id) + "/diagnostics/inspect?format=json"));
  sandbox.update(details);
  // An ended sandbox has no network and no files.
  const auto network = Fetch(api, PathOf(id) + "/network");
  if (network) sandbox["network"] = *network;
  const auto disk = Fetch(api, PathOf(id) + "/disk");
  if (disk) sandbox["disk"] = *disk;
  return sandbox;
}

Status Inspect(const Settings& settings, const Words& ids) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  json all = json::array();
  Status done;
  for (const std::string& given : ids) {
    const auto id = ResolveId(api, given);
    auto one = id ? Everything(api, *id) : Result<json>(Fail(id.error()));
    // The name may be that of an image, as in docker.
    if (!id && id.error().code() == Code::kNotFound) {
      if (auto image = FindImage(api, given)) one = *std::move(image);
    }
    if (!one && !id && id.error().code() == Code::kNotFound) {
      if (const auto gone = ResolveIdOrGone(api, given)) one = Everything(api, *gone);
    }
    if (one) {
      all.push_back(*std::move(one));
      continue;
    }
    if (!done) Report(settings, done.error());
    done = Fail(std::move(one).error());
  }
  std::puts((settings.json ? JsonText(all) : PrettyJson(all)).c_str());
  return done;
}

// Sends POST …/WHAT for each sandbox and prints its id, as docker does.
Status Post(const Settings& settings, const Words& ids, const std::string& what) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  return ForEachSandbox(settings, api, ids, [&](const std::string& id) -> Status {
    ATOLL_TRY(api.Send("POST", PathOf(id) + what));
    if (!settings.json) std::puts(id.c_str());
    return {};
  });
}

Status Renew(const Settings& settings, const std::string& given, int seconds) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(const http::Response response, api.Send("POST", PathOf(id) + "/renew-expiration",
                                                       JsonText({{"expiresAt", TimeIn(seconds)}})));
  ATOLL_ASSIGN(const json renewed, ObjectOf(response));
  std::puts(settings.json ? response.body.c_str()
                          : Printable(TextOf(renewed, "expiresAt")).c_str());
  return {};
}

}  // namespace

void AddLifecycleVerbs(Verb& root, const Settings& settings) {
  const auto add_many = [&root](const char* names, const char* what, auto act) -> Verb& {
    const auto ids = std::make_shared<Words>();
    return root.Add(names, what).Takes(Argument{"ID", kSandboxes, ids.get()}).Does([ids, act] {
      return act(*ids);
    });
  };
  add_many("inspect",
           "All there is to know of sandboxes or images, as JSON: limits, env, volumes, network",
           [&settings](const Words& ids) { return Inspect(settings, ids); })
      .Says(
          "Examples:\n"
          "  atoll inspect web\n"
          "  atoll inspect python:3.11\n"
          "  atoll inspect --json web | jq -r '.[0].resourceLimits.memory'");
  add_many("pause", "Stop all processes of sandboxes where they are",
           [&settings](const Words& ids) { return Post(settings, ids, "/pause"); });
  add_many("resume,unpause", "Let paused sandboxes go on",
           [&settings](const Words& ids) { return Post(settings, ids, "/resume"); });

  struct One {
    std::string id;
    int number = 0;
  };
  constexpr Range kRenewal = Seconds(1, 10 * 365 * 86400);
  const auto renewal = std::make_shared<One>(One{"", 3600});
  root.Add("renew", "Move a sandbox's end")
      .Takes(Argument{"ID", kOneSandbox, &renewal->id})
      .Takes(Argument{"DURATION", "From now until it is removed: 90s, 5m, 2h, 1d", &renewal->number,
                      false, kRenewal})
      .Takes(Option{"--timeout", "DURATION", "The same", &renewal->number, kRenewal})
      .Says("Examples:\n  atoll renew web 2h")
      .Does([renewal, &settings] { return Renew(settings, renewal->id, renewal->number); });
}

}  // namespace atl::cli
