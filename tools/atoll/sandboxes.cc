// atoll ls|ps|rm
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>

#include "tools/atoll/api.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

Status ListSandboxes(const Settings& settings, const std::vector<std::string>& states, bool quiet) {
  std::string query;
  for (const std::string& state : states) query += "&state=" + PercentEncode(state);
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const auto all, FetchSandboxes(api, query));
  if (settings.json) {
    std::string items;
    for (const SandboxEntry& sandbox : all) items += (items.empty() ? "" : ",") + sandbox.json;
    std::printf("{\"items\":[%s]}\n", items.c_str());
    return {};
  }
  if (quiet) {
    for (const SandboxEntry& sandbox : all) std::puts(Printable(sandbox.id).c_str());
    return {};
  }
  Table table({"ID", "NAME", "IMAGE", "STATE", "CREATED", "EXPIRES"});
  for (const SandboxEntry& s : all) {
    table.AddRow({s.id, s.name, s.image, s.state, s.created, s.expires});
  }
  std::fputs(table.Text().c_str(), stdout);
  return {};
}

Status RemoveSandboxes(const Settings& settings, std::vector<std::string> ids, bool all) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  if (all) {
    ATOLL_ASSIGN(const auto list, FetchSandboxes(api, ""));
    for (const SandboxEntry& sandbox : list) ids.push_back(sandbox.id);
  }
  // One that is gone does not keep the others.
  Status first_error;
  for (const std::string& given : ids) {
    const auto id = ResolveId(api, given);
    auto removed = id ? api.Send("DELETE", "/sandboxes/" + PercentEncode(*id))
                      : Result<http::Response>(Fail(id.error()));
    if (removed) {
      if (!settings.json) std::puts(id->c_str());
      continue;
    }
    if (!first_error) Report(first_error);
    first_error = Fail(std::move(removed).error());
  }
  return first_error;
}

}  // namespace

void AddSandboxVerbs(CLI::App& app, const Settings& settings, int* exit_code) {
  CLI::App* ls = app.add_subcommand("ls", "List sandboxes");
  ls->alias("ps");
  struct ListOptions {
    std::vector<std::string> states;
    bool quiet = false;
  };
  const auto list = std::make_shared<ListOptions>();
  ls->add_option("--state", list->states, "Only those in this state (Running, …); repeatable")
      ->allow_extra_args(false);
  ls->add_flag("-q,--quiet", list->quiet, "Only ids");
  ls->callback([list, &settings, exit_code] {
    *exit_code = Report(ListSandboxes(settings, list->states, list->quiet));
  });

  CLI::App* rm = app.add_subcommand("rm", "Delete sandboxes with everything in them");
  struct RemoveOptions {
    std::vector<std::string> ids;
    bool all = false;
  };
  const auto remove = std::make_shared<RemoveOptions>();
  auto* ids = rm->add_option("ID", remove->ids, "Sandboxes: ids, starts of ids, or names");
  auto* all = rm->add_flag("--all", remove->all, "All sandboxes");
  ids->excludes(all);
  rm->callback([remove, &settings, exit_code] {
    if (remove->ids.empty() && !remove->all) throw CLI::RequiredError("ID or --all");
    *exit_code = Report(RemoveSandboxes(settings, remove->ids, remove->all));
  });
}

}  // namespace atl::cli
