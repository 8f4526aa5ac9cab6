// atoll fork
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/atoll/json_text.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

using nlohmann::json;

Status Fork(const Settings& settings, const std::string& given, int count) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(
      const http::Response response,
      api.Send("POST", "/sandboxes/" + PercentEncode(id) + "/fork", JsonText({{"count", count}})));
  ATOLL_ASSIGN(const json forked, ObjectOf(response));
  if (settings.json) {
    std::puts(JsonText(forked).c_str());
    return {};
  }
  for (const json& child : forked.value("items", json::array())) {
    std::puts(Printable(TextOf(child, "id")).c_str());
  }
  return {};
}

}  // namespace

void AddBranchVerbs(Verb& root, const Settings& settings) {
  struct Options {
    std::string id;
    int count = 1;
  };
  const auto options = std::make_shared<Options>();
  root.Add("fork", "Start sandboxes with the files that one has now, all of them or none")
      .Takes(Argument{"ID", kOneSandbox, &options->id})
      .Takes(Option{"-n,--count", "N", "How many", &options->count, Range{1, 64}})
      .Says(
          "Prints their ids. They have its image, env, limits, network policy, labels, volumes\n"
          "and expiry; not its processes and memory: the entrypoint starts anew in each.\n\n"
          "Example:\n"
          "  for child in $(atoll fork web -n 3); do atoll exec $child ls /srv; done")
      .Does([options, &settings] { return Fork(settings, options->id, options->count); });

}

}  // namespace atl::cli
