// atoll pool create|ls|inspect|rm
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/verbs/each.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/columns.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

struct PoolOptions {
  std::string name, image, memory, cpus;
  int parked = 4;
  int most = 256;
  ListStyle style;
  Words names;
};

Status CreatePool(const Settings& settings, const PoolOptions& options) {
  json limits = json::object();
  if (!options.memory.empty()) limits["memory"] = options.memory;
  if (!options.cpus.empty()) limits["cpu"] = options.cpus;
  // A claimed sandbox is replaced.
  const json body{{"name", options.name},
                  {"image", {{"uri", options.image}}},
                  {"resourceLimits", limits},
                  {"capacitySpec",
                   {{"bufferMin", options.parked},
                    {"bufferMax", options.parked},
                    {"poolMin", 0},
                    {"poolMax", options.most}}}};
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const http::Response response, api.Send("POST", "/pools", JsonText(body)));
  std::puts(settings.json ? response.body.c_str() : Printable(options.name).c_str());
  return {};
}

std::string CountOf(const json& object, const char* group, const char* name) {
  const json counts = object.value(group, json::object());
  return std::to_string(counts.value(name, 0));
}

Status ListPools(const Settings& settings, const ListStyle& style) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json list, Fetch(api, "/pools"));
  if (settings.json && style.format.empty()) {
    std::puts(JsonText(list).c_str());
    return {};
  }
  Columns columns({"Name", "Image", "Parked", "InUse", "AtMost"});
  for (const auto& pool : list.value("items", json::array())) {
    columns.Add({pool.value("name", ""), pool.value("image", json::object()).value("uri", ""),
                 CountOf(pool, "status", "available"), CountOf(pool, "status", "allocated"),
                 CountOf(pool, "capacitySpec", "poolMax")});
  }
  return columns.Print(style);
}

}  // namespace

void AddPoolVerbs(Verb& root, const Settings& settings) {
  const auto options = std::make_shared<PoolOptions>();
  Verb& group = root.Add("pool", "Sandboxes that are built ahead");
  group.Add("create", "Keep sandboxes of an image parked, for creates that name the pool")
      .Takes(Argument{"NAME", "What extensions.poolRef calls it", &options->name})
      .Takes(Argument{"IMAGE", "Image as 'atoll image ls' shows it", &options->image})
      .Takes(Option{"--parked",
                    "N",
                    "How many wait; each that is claimed is replaced",
                    &options->parked,
                    {1, 1024}})
      .Takes(Option{"--at-most",
                    "N",
                    "How many there may be, claimed ones included",
                    &options->most,
                    {1, 1 << 20}})
      .Takes(Option{"--memory", "SIZE", "Memory limit of each; else the server's default",
                    &options->memory})
      .Takes(Option{"--cpus", "N", "Processors of each; else the server's default", &options->cpus})
      .Does([options, &settings] { return CreatePool(settings, *options); });
  TakesListStyle(group.Add("ls,list", "List pools"), &options->style, "Only names",
                 "{{.Name}} {{.Parked}}")
      .Does([options, &settings] { return ListPools(settings, options->style); });
  const Argument names = {"POOL", "Pools as 'atoll pool ls' shows them", &options->names};
  group.Add("inspect", "A pool and its sandboxes' number, as JSON")
      .Takes(names)
      .Does([options, &settings] { return ForEachOf(settings, "/pools/", options->names, "GET"); });
  group.Add("rm,remove", "Delete pools of which no sandbox lives, and what is parked")
      .Takes(names)
      .Does([options, &settings] {
        return ForEachOf(settings, "/pools/", options->names, "DELETE");
      });
}

}  // namespace atl::cli
