// atoll ls|ps|rm|exec
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/sandbox_id.h"
#include "tools/atoll/api.h"
#include "tools/atoll/command.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/text.h"
#include "tools/atoll/usage.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

using nlohmann::json;

// All pages; JSON stays in this file.
Result<json> FetchSandboxes(Api& api, const std::string& query) {
  json all = json::array();
  for (int page = 1;; ++page) {
    ATOLL_ASSIGN(const http::Response response,
                 api.Send("GET", "/sandboxes?pageSize=200&page=" + std::to_string(page) + query));
    const auto list = json::parse(response.body, nullptr, false);
    if (!list.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
    for (const auto& item : list.value("items", json::array())) all.push_back(item);
    const auto pagination = list.value("pagination", json::object());
    if (!pagination.value("hasNextPage", false)) return all;
  }
}

// An id, or the start of exactly one.
Result<std::string> ResolveId(Api& api, const std::string& given) {
  if (ValidSandboxId(given)) return given;
  ATOLL_ASSIGN(const json all, FetchSandboxes(api, ""));
  std::string found;
  for (const auto& sandbox : all) {
    const std::string id = sandbox.value("id", "");
    const bool named = sandbox.value("metadata", json::object()).value("name", "") == given;
    if (!named && (given.empty() || id.rfind(given, 0) != 0)) continue;
    if (!found.empty()) {
      return Fail(Code::kInvalidArgument,
                  "'" + given + "' could be " + found + " or " + id + "; give more of the id");
    }
    found = id;
  }
  if (!found.empty()) return found;
  return Fail(Code::kNotFound, "no sandbox '" + given + "'; see: atoll ls");
}

Status ListSandboxes(const Settings& settings, const std::vector<std::string>& states, bool quiet) {
  std::string query;
  for (const std::string& state : states) query += "&state=" + PercentEncode(state);
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json all, FetchSandboxes(api, query));
  if (settings.json) {
    std::puts(json{{"items", all}}.dump().c_str());
    return {};
  }
  Table table({"ID", "NAME", "IMAGE", "STATE", "CREATED", "EXPIRES"});
  for (const auto& sandbox : all) {
    const std::string id = sandbox.value("id", "");
    if (quiet) {
      std::puts(Printable(id).c_str());
      continue;
    }
    table.AddRow({id, sandbox.value("metadata", json::object()).value("name", ""),
                  sandbox.value("image", json::object()).value("uri", ""),
                  sandbox.value("status", json::object()).value("state", ""),
                  sandbox.value("createdAt", "").substr(0, 19),
                  sandbox.value("expiresAt", "never").substr(0, 19)});
  }
  if (!quiet) std::fputs(table.Text().c_str(), stdout);
  return {};
}

Status RemoveSandboxes(const Settings& settings, std::vector<std::string> ids, bool all) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  if (all) {
    ATOLL_ASSIGN(const json list, FetchSandboxes(api, ""));
    for (const auto& sandbox : list) ids.push_back(sandbox.value("id", ""));
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

struct ExecOptions {
  std::string id;
  std::vector<std::string> env;
  std::string cwd;
};

Result<int> Exec(const Settings& settings, const ExecOptions& options, const Words& command) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const auto env, ExpandEnvironment(options.env));
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, options.id));
  return RunCommand(api, id, {command, env, options.cwd}, cancel_fd);
}

}  // namespace

void AddExecVerb(CLI::App& app, const Settings& settings, const Words& command, int* exit_code) {
  CLI::App* exec = app.add_subcommand("exec", "Run a command in a sandbox that exists");
  SetUsage(exec, "atoll exec [OPTIONS] ID -- COMMAND [ARGUMENT…]");
  const auto options = std::make_shared<ExecOptions>();
  exec->add_option("ID", options->id, "Sandbox: its id, the start of it, or its name")->required();
  exec->add_option("-e,--env", options->env, "NAME=VALUE, or NAME to pass our own on; repeatable")
      ->allow_extra_args(false);
  exec->add_option("-w,--workdir", options->cwd, "Directory to run in");
  exec->footer(
      "Exit codes and Ctrl-C are as with 'atoll run'.\n\n"
      "Example:\n"
      "  atoll exec 4f1c -- ls -l /tmp");
  exec->callback([options, &settings, &command, exit_code] {
    if (command.empty()) throw CLI::RequiredError("-- COMMAND");
    const auto code = Exec(settings, *options, command);
    *exit_code = code ? *code : Report(Fail(code.error()), kRunFailed);
  });
}

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
