// atoll snapshot create|ls|inspect|rm, and the others of its group
#include <poll.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/each.h"
#include "tools/atoll/verbs/snapshot_archive.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/columns.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr int kLookMillis = 20;

json StatusOf(const json& snapshot) {
  return snapshot.value("status", json::object());
}

Status TakeSnapshot(const Settings& settings, const std::string& sandbox, const std::string& name) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string source, ResolveId(api, sandbox));
  const json body = name.empty() ? json::object() : json{{"name", name}};
  ATOLL_ASSIGN(
      const http::Response response,
      api.Send("POST", "/sandboxes/" + PercentEncode(source) + "/snapshots", JsonText(body)));
  ATOLL_ASSIGN(json snapshot, ObjectOf(response));
  const std::string id = TextOf(snapshot, "id");
  while (TextOf(StatusOf(snapshot), "state") == "Creating") {
    ::poll(nullptr, 0, kLookMillis);
    ATOLL_ASSIGN(snapshot, Fetch(api, "/snapshots/" + PercentEncode(id)));
  }
  if (TextOf(StatusOf(snapshot), "state") != "Ready") {
    return Fail(Code::kInternal,
                "snapshot " + id + " failed: " + Printable(TextOf(StatusOf(snapshot), "message")));
  }
  std::puts(settings.json ? JsonText(snapshot).c_str() : Printable(id).c_str());
  return {};
}

struct SnapshotFilter {
  std::string sandbox, name, state;
  ListStyle style;
};

Status ListSnapshots(const Settings& settings, const SnapshotFilter& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  std::string query;
  for (const auto& [key, value] :
       {std::pair("sandboxId", options.sandbox), std::pair("name", options.name),
        std::pair("state", options.state)}) {
    if (!value.empty()) query += std::string("&") + key + "=" + PercentEncode(value);
  }
  ATOLL_ASSIGN(const json items, FetchPages(api, "/snapshots", query));
  if (settings.json && options.style.format.empty()) {
    std::puts(JsonText({{"items", items}}).c_str());
    return {};
  }
  Columns columns({"ID", "Name", "Sandbox", "State", "Created"}, {{"CreatedAt", "Created"}});
  for (const json& item : items) {
    columns.Add({TextOf(item, "id"), TextOf(item, "name"), TextOf(item, "sandboxId"),
                 TextOf(StatusOf(item), "state"), TimeOf(item, "createdAt")});
  }
  return columns.Print(options.style);
}

}  // namespace

void AddSnapshotVerbs(Verb& root, const Settings& settings) {
  struct Options {
    std::string sandbox, name;
    SnapshotFilter list;
    Words ids;
  };
  const auto options = std::make_shared<Options>();
  Verb& group = root.Add("snapshot", "What sandboxes have written, to start others from");
  group.Add("create", "Take one of a sandbox, which goes on, and wait until it is whole")
      .Takes(Argument{"ID", kOneSandbox, &options->sandbox})
      .Takes(Option{"--name", "NAME", "A name, which others may have too", &options->name})
      .Does(
          [options, &settings] { return TakeSnapshot(settings, options->sandbox, options->name); })
      .Says(
          "Memory, processes and volumes are not in it: run --snapshot starts a new sandbox with\n"
          "the same files.\n\n"
          "Examples:\n"
          "  atoll snapshot create web --name configured\n"
          "  atoll run --snapshot $(atoll snapshot ls -q --name configured) sh -c 'ls /srv'");
  TakesListStyle(group.Add("ls,list", "List snapshots, newest first"), &options->list.style,
                 "Only ids", "{{.ID}} {{.Name}}")
      .Takes(Option{"--sandbox", "ID", "Only those of this sandbox", &options->list.sandbox})
      .Takes(Option{"--name", "NAME", "Only those of this name", &options->list.name})
      .Takes(Option{"--state", "STATE", "Only those that are Creating, Ready or Failed",
                    &options->list.state})
      .Does([options, &settings] { return ListSnapshots(settings, options->list); });
  const Argument ids = {"SNAPSHOT", "Ids as 'atoll snapshot ls' shows them", &options->ids};
  group.Add("inspect", "A snapshot as JSON").Takes(ids).Does([options, &settings] {
    return ForEachOf(settings, "/snapshots/", options->ids, "GET");
  });
  group.Add("rm,remove", "Delete snapshots that no sandbox was restored from")
      .Takes(ids)
      .Does([options, &settings] {
        return ForEachOf(settings, "/snapshots/", options->ids, "DELETE");
      });
  AddSnapshotArchiveVerbs(group, settings);
}

}  // namespace atl::cli
