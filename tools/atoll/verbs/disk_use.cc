// atoll du
#include "tools/atoll/verbs/disk_use.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

struct Item {
  std::string kind, id, name;
  DiskUse use;
};

DiskUse UseOf(const json& told) {
  const auto bytes = told.find("bytes");
  return {bytes != told.end() && bytes->is_number_unsigned() ? bytes->get<uint64_t>() : 0,
          told.value("complete", true)};
}

// Measures everything in the store. Leaves out an object that disappears meanwhile.
Result<std::vector<Item>> MeasureAll(Api& api) {
  std::vector<Item> items;
  ATOLL_ASSIGN(const auto sandboxes, FetchSandboxes(api, ""));
  for (const SandboxEntry& sandbox : sandboxes) {
    const auto use = MeasureDisk(api, "/sandboxes/" + PercentEncode(sandbox.id));
    if (use) items.push_back({"sandbox", sandbox.id, sandbox.name, *use});
  }
  ATOLL_ASSIGN(const json volumes, Fetch(api, "/volumes"));
  for (const json& volume : volumes.value("items", json::array())) {
    const std::string name = TextOf(volume, "name"), tenant = TextOf(volume, "tenant");
    if (!api.tenant().empty() && tenant != api.tenant()) continue;
    const std::string owner = tenant.empty() || tenant == api.tenant() ? "" : "?tenant=" + tenant;
    const auto told = Fetch(api, "/volumes/" + PercentEncode(name) + owner);
    if (told && told->contains("size"))
      items.push_back({"volume", name, "", UseOf((*told)["size"])});
  }
  ATOLL_ASSIGN(const json snapshots, FetchPages(api, "/snapshots", ""));
  for (const json& snapshot : snapshots) {
    if (!api.tenant().empty() && TextOf(snapshot, "tenant") != api.tenant()) continue;
    const std::string id = TextOf(snapshot, "id");
    const auto use = MeasureDisk(api, "/snapshots/" + PercentEncode(id));
    if (use) items.push_back({"snapshot", id, TextOf(snapshot, "name"), *use});
  }
  ATOLL_ASSIGN(const json images, Fetch(api, "/images"));
  for (const json& image : images.value("items", json::array())) {
    const auto bytes = image.find("sizeBytes");
    if (bytes == image.end() || !bytes->is_number_unsigned()) continue;
    items.push_back({"image", TextOf(image, "name"), "", {bytes->get<uint64_t>()}});
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.use.bytes > b.use.bytes; });
  return items;
}

Status ShowDiskUse(const Settings& settings) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const auto items, MeasureAll(api));
  Table table({"SIZE", "KIND", "ID", "NAME"});
  json list = json::array();
  for (const Item& item : items) {
    table.AddRow({item.use.Text(), item.kind, item.id, item.name});
    json one = {{"kind", item.kind},
                {"id", item.id},
                {"bytes", item.use.bytes},
                {"complete", item.use.complete}};
    if (!item.name.empty()) one["name"] = item.name;
    list.push_back(std::move(one));
  }
  const std::string text = settings.json ? JsonText({{"items", list}}) + "\n" : table.Text();
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace

std::string DiskUse::Text() const {
  return (complete ? "" : "over ") + HumanSize(bytes);
}

Result<DiskUse> MeasureDisk(Api& api, const std::string& path) {
  ATOLL_ASSIGN(const json told, Fetch(api, path + "/disk"));
  return UseOf(told);
}

void AddDiskVerb(Verb& root, const Settings& settings) {
  root.Add("du", "What sandboxes, volumes, snapshots and images take on disk, the largest first")
      .Says(
          "An image's size is that of all its layers, also those that other images share.\n\n"
          "Examples:\n"
          "  atoll du | head\n"
          "  atoll du --json | jq '.items[] | select(.kind == \"sandbox\")'")
      .Does([&settings] { return ShowDiskUse(settings); });
}

}  // namespace atl::cli
