// atoll volume create|ls|inspect|rm
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

Status CreateVolume(const Settings& settings, const std::string& name, const std::string& size) {
  json body{{"name", name}};
  if (!size.empty()) body["storage"] = size;
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const http::Response response, api.Send("POST", "/volumes", JsonText(body)));
  std::puts(settings.json ? response.body.c_str() : Printable(name).c_str());
  return {};
}

Status ListVolumes(const Settings& settings, const ListStyle& style) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json list, Fetch(api, "/volumes"));
  if (settings.json && style.format.empty()) {
    std::puts(JsonText(list).c_str());
    return {};
  }
  Columns columns({"Name", "Created", "UsedBy"}, {{"CreatedAt", "Created"}});
  for (const auto& volume : list.value("items", json::array())) {
    std::string users;
    for (const auto& user : volume.value("usedBy", json::array())) {
      if (user.is_string()) users += (users.empty() ? "" : " ") + user.get<std::string>();
    }
    columns.Add({volume.value("name", ""), TimeOf(volume, "createdAt"), users});
  }
  return columns.Print(style);
}

}  // namespace

void AddVolumeVerbs(Verb& root, const Settings& settings) {
  struct Options {
    std::string name, size;
    ListStyle style;
    Words names;
  };
  const auto options = std::make_shared<Options>();
  Verb& group = root.Add("volume", "Directories that outlive sandboxes");
  group.Add("create", "Create an empty volume")
      .Takes(Argument{"NAME", "What run -v and claimName call it", &options->name})
      .Takes(Option{"--size", "SIZE", "How much it may hold, as 10Gi; else the server's default",
                    &options->size})
      .Does([options, &settings] { return CreateVolume(settings, options->name, options->size); });
  TakesListStyle(group.Add("ls,list", "List volumes"), &options->style, "Only names",
                 "{{.Name}} {{.UsedBy}}")
      .Does([options, &settings] { return ListVolumes(settings, options->style); });
  const Argument names = {"VOLUME", "Volumes as 'atoll volume ls' shows them", &options->names};
  group.Add("inspect", "A volume, its users and its size, as JSON")
      .Takes(names)
      .Does(
          [options, &settings] { return ForEachOf(settings, "/volumes/", options->names, "GET"); });
  group.Add("rm,remove", "Delete volumes that no sandbox uses, with everything in them")
      .Takes(names)
      .Does([options, &settings] {
        return ForEachOf(settings, "/volumes/", options->names, "DELETE");
      });
}

}  // namespace atl::cli
