// atoll ps|rm|prune
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/atoll/client/api.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/disk_use.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/columns.h"

namespace atl::cli {
namespace {

struct SandboxFilter {
  Words states, filters;
  ListStyle style;
  bool all = false, gone = false, whole = false, size = false;
};

// Parses KEY=VALUE of --filter.
Result<std::function<bool(const SandboxEntry&)>> FilterOf(const std::string& given) {
  const size_t equals = given.find('=');
  const std::string key = given.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : given.substr(equals + 1);
  if (key == "name") return [value](const auto& s) { return s.name.find(value) != s.name.npos; };
  if (key == "id") return [value](const auto& s) { return s.id.starts_with(value); };
  if (key == "ancestor" || key == "image") {
    return [value](const auto& s) { return s.image == value || s.image.starts_with(value + ":"); };
  }
  if (key == "status" || key == "state") {
    return [value](const auto& s) { return StatusMatches(s.state, value); };
  }
  if (key == "label") {
    return [value](const auto& s) { return s.HasLabel(value); };
  }
  return Fail(Code::kInvalidArgument,
              "--filter " + given + ": use name=, id=, image=, status= or label=");
}

Status ListSandboxes(const Settings& settings, const SandboxFilter& options) {
  std::vector<std::function<bool(const SandboxEntry&)>> filters;
  bool all = options.all || options.gone || !options.states.empty();
  for (const std::string& given : options.filters) {
    ATOLL_ASSIGN(filters.emplace_back(), FilterOf(given));
    // A filter by status includes ended sandboxes.
    all = all || given.starts_with("status=") || given.starts_with("state=");
  }
  std::string query;
  for (const std::string& state : options.states) query += "&state=" + PercentEncode(state);
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(auto list, FetchSandboxes(api, query));
  if (options.gone) {
    ATOLL_ASSIGN(auto gone, FetchGone(api));
    for (SandboxEntry& sandbox : gone) {
      const auto fits = [&](const std::string& state) {
        return StatusMatches(sandbox.state, state);
      };
      if (options.states.empty() || std::any_of(options.states.begin(), options.states.end(), fits))
        list.push_back(std::move(sandbox));
    }
  }
  std::erase_if(list, [&](const SandboxEntry& sandbox) {
    if (!all && sandbox.HasEnded()) return true;
    for (const auto& keeps : filters) {
      if (!keeps(sandbox)) return true;
    }
    return false;
  });
  if (settings.json && options.style.format.empty()) {
    std::string items;
    for (const SandboxEntry& sandbox : list) items += (items.empty() ? "" : ",") + sandbox.json;
    std::printf("{\"items\":[%s]}\n", items.c_str());
    return {};
  }
  // A format with the size measures it, as in docker.
  const bool sized = options.size || options.style.format.find(".Size") != std::string::npos;
  std::vector<std::string> shown = {"ID", "Name", "Image", "State", "Created", "Expires"};
  std::vector<std::string> others = {"Command", "Labels", "Reason"};
  // A column of its own where not all are of the usual kind.
  const bool mixed = std::any_of(list.begin(), list.end(),
                                 [](const auto& s) { return s.isolation != "namespace"; });
  (mixed ? shown : others).insert(mixed ? shown.end() : others.begin(), "Isolation");
  // A list with ended sandboxes also shows their exit codes.
  (all ? shown : others).insert(all ? shown.begin() + 4 : others.begin(), "Exit");
  const bool shared = std::any_of(list.begin(), list.end(),
                                  [&](const auto& s) { return s.tenant != list.front().tenant; });
  (shared ? shown : others).insert(shared ? shown.begin() + 2 : others.begin(), "Tenant");
  (options.gone ? shown : others).insert(options.gone ? shown.end() : others.begin(), "Gone");
  const bool priced =
      std::any_of(list.begin(), list.end(), [](const auto& s) { return !s.cost.empty(); });
  (priced ? shown : others).insert(priced ? shown.end() : others.begin(), "Cost");
  (options.size ? shown : others).insert(options.size ? shown.end() : others.begin(), "Size");
  std::vector<std::string> fields = shown;
  fields.insert(fields.end(), others.begin(), others.end());
  Columns columns(
      std::move(shown),
      {{"Names", "Name"}, {"Status", "State"}, {"CreatedAt", "Created"}, {"RunningFor", "Created"}},
      std::move(others));
  for (const SandboxEntry& s : list) {
    Result<DiskUse> use = DiskUse();
    if (sized && s.gone.empty()) use = MeasureDisk(api, "/sandboxes/" + PercentEncode(s.id));
    const std::map<std::string, std::string> values = {{"ID", s.id},
                                                       {"Name", s.name},
                                                       {"Image", s.image},
                                                       {"State", s.state},
                                                       {"Exit", s.exit},
                                                       {"Created", s.created},
                                                       {"Expires", s.expires},
                                                       {"Isolation", s.isolation},
                                                       {"Gone", s.gone},
                                                       {"Cost", s.cost},
                                                       {"Size", sized && use ? use->Text() : ""},
                                                       {"Command", s.command},
                                                       {"Labels", s.LabelText()},
                                                       {"Tenant", s.tenant},
                                                       {"Reason", s.reason}};
    std::vector<std::string> cells;
    for (const std::string& field : fields) cells.push_back(values.at(field));
    columns.Add(std::move(cells));
  }
  return columns.Print(options.style);
}

Status Remove(const Settings& settings, Api& api, const Words& ids) {
  return ForEachSandbox(settings, api, ids, [&](const std::string& id) -> Status {
    ATOLL_TRY(api.Send("DELETE", "/sandboxes/" + PercentEncode(id)));
    if (!settings.json) std::puts(id.c_str());
    return {};
  });
}

Status RemoveSandboxes(const Settings& settings, Words ids, bool all) {
  if (ids.empty() != all) {
    return Fail(Code::kInvalidArgument, "name sandboxes, or --all");
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  if (all) {
    ATOLL_ASSIGN(const auto list, FetchSandboxes(api, ""));
    for (const SandboxEntry& sandbox : list) ids.push_back(sandbox.id);
  }
  return Remove(settings, api, ids);
}

Status Prune(const Settings& settings) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const auto list, FetchSandboxes(api, "&state=Terminated&state=Failed"));
  Words ids;
  for (const SandboxEntry& sandbox : list) ids.push_back(sandbox.id);
  return Remove(settings, api, ids);
}

}  // namespace

void AddSandboxVerbs(Verb& root, const Settings& settings) {
  const auto list = std::make_shared<SandboxFilter>();
  Verb& ps = root.Add("ps,ls", "List sandboxes");
  ps.Takes(Option{"-a,--all", "", "Those that have ended, too", &list->all});
  ps.Takes(Option{"--gone", "", "Those that are gone, too, from the history", &list->gone});
  TakesListStyle(ps, &list->style, "Only ids", "{{.ID}} {{.Name}}");
  ps.Takes(Option{"-f,--filter", "KEY=VALUE",
                  "Only those with this name, id, image, status or label", &list->filters});
  ps.Takes(Option{"--state", "STATE", "Only those in this state (Running, …)", &list->states});
  ps.Takes(
      Option{"-s,--size", "", "What each has written to disk, too, measured now", &list->size});
  ps.Takes(Option{"--no-trunc", "", "As always: nothing is cut", &list->whole});
  ps.Says(
      "Fields of --format: ID, Name, Image, State, Exit, Created, Expires, Isolation, Gone, "
      "Cost, Size, Tenant, Reason, Command, Labels.\n\n"
      "Examples:\n"
      "  atoll ps -a --filter status=exited\n"
      "  atoll ps -a --gone --filter label=job=7\n"
      "  atoll rm $(atoll ps -q --filter label=job=7)\n"
      "  atoll ps --format '{{.Name}}: {{.State}}'");
  ps.Does([list, &settings] { return ListSandboxes(settings, *list); });

  struct RemoveOptions {
    Words ids;
    bool all = false, force = false;
  };
  const auto remove = std::make_shared<RemoveOptions>();
  Verb& rm = root.Add("rm", "Delete sandboxes with everything in them, running or not");
  rm.Takes(Argument{"ID", kSandboxes, &remove->ids, false});
  rm.Takes(Option{"--all", "", "All sandboxes", &remove->all});
  rm.Takes(Option{"-f,--force", "", "As always", &remove->force});
  rm.Says("Examples:\n  atoll rm web\n  atoll rm $(atoll ps -q --filter label=job=7)");
  rm.Does([remove, &settings] { return RemoveSandboxes(settings, remove->ids, remove->all); });

  const auto force = std::make_shared<bool>(false);
  Verb& prune = root.Add("prune", "Delete the sandboxes that have ended");
  prune.Takes(Option{"-f,--force", "", "As always: nothing is asked", force.get()});
  prune.Says("Examples:\n  atoll prune        # their logs and exit codes go to the history");
  prune.Does([force, &settings] { return Prune(settings); });
}

}  // namespace atl::cli
