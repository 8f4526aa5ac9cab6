// atoll exec
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <cstdio>

#include "tools/atoll/api.h"
#include "tools/atoll/command.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/terminal.h"
#include "tools/atoll/usage.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

struct ExecOptions {
  std::string id;
  std::vector<std::string> env;
  std::string cwd;
  std::string user;
  bool interactive = false;
  bool terminal = false;
  bool detach = false;
};

std::optional<uint32_t> ParseId(std::string_view text) {
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

// The fields of NAME's line in a file such as /etc/passwd of the sandbox.
Result<std::vector<std::string>> FindAccount(Api& api, const ExecdWay& way, const std::string& file,
                                             const std::string& name) {
  http::Client::Call call;
  call.target = way.base + "/files/download?path=" + PercentEncode(file);
  call.headers = way.headers;
  auto response = api.Send(std::move(call));
  if (!response) return Fail(std::move(response).error().Wrap(file + " of the sandbox"));
  std::string_view rest = response->body;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.starts_with(name + ":")) continue;
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ':') {
        fields.emplace_back();
      } else {
        fields.back().push_back(c);
      }
    }
    return fields;
  }
  return Fail(Code::kNotFound, "the sandbox's " + file + " has no '" + name + "'");
}

// USER[:GROUP], each a number or a name that the sandbox knows.
Result<UserIds> FindUser(Api& api, const std::string& sandbox_id, const std::string& given) {
  const size_t colon = given.find(':');
  const std::string user = given.substr(0, colon);
  const std::string group = colon == std::string::npos ? "" : given.substr(colon + 1);
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox_id));
  auto uid = ParseId(user), gid = ParseId(group);
  if (!uid) {
    ATOLL_ASSIGN(const auto fields, FindAccount(api, way, "/etc/passwd", user));
    if (fields.size() < 4) return Fail(Code::kInternal, "/etc/passwd of the sandbox is malformed");
    uid = ParseId(fields[2]);
    if (group.empty()) gid = ParseId(fields[3]);
  }
  if (!group.empty() && !gid) {
    ATOLL_ASSIGN(const auto fields, FindAccount(api, way, "/etc/group", group));
    if (fields.size() < 3) return Fail(Code::kInternal, "/etc/group of the sandbox is malformed");
    gid = ParseId(fields[2]);
  }
  if (!uid || (!gid && !group.empty())) {
    return Fail(Code::kInternal, "the sandbox's accounts have ids that are no numbers");
  }
  return UserIds{*uid, gid.value_or(*uid)};
}

Result<int> Exec(const Settings& settings, const ExecOptions& options, const Words& command) {
  if (options.terminal && isatty(STDIN_FILENO) != 1) {
    return Fail(Code::kInvalidArgument, "-t needs a terminal as standard input");
  }
  ATOLL_ASSIGN(const auto env, ExpandEnvironment(options.env));
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, options.id));
  if (options.terminal || options.interactive) {
    return RunInTerminal(api, id, {command, env, options.cwd}, options.terminal);
  }
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  Command request{command, env, options.cwd};
  request.background = options.detach;
  if (!options.user.empty()) {
    ATOLL_ASSIGN(request.user, FindUser(api, id, options.user));
  }
  return RunCommand(api, id, request, cancel_fd);
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
  auto* user = exec->add_option("-u,--user", options->user, "USER[:GROUP], by name or number");
  auto* interactive =
      exec->add_flag("-i,--interactive", options->interactive, "Pass our standard input on");
  auto* terminal =
      exec->add_flag("-t,--tty", options->terminal, "Give it a terminal, as large as ours");
  auto* detach = exec->add_flag("-d,--detach", options->detach, "Leave it running, print its id");
  detach->excludes(interactive)->excludes(terminal);
  user->excludes(interactive)->excludes(terminal);
  exec->footer(
      "Exit codes: the command's own; 125 if it could not be run; 126 if it is no program; 127 if\n"
      "there is none of that name; 255 if it was killed. Ctrl-C stops the command.\n\n"
      "Examples:\n"
      "  atoll exec 4f1c -- ls -l /tmp\n"
      "  atoll exec -it 4f1c -- bash");
  exec->callback([options, &settings, &command, exit_code] {
    if (command.empty()) throw CLI::RequiredError("-- COMMAND");
    const auto code = Exec(settings, *options, command);
    *exit_code = code ? *code : Report(Fail(code.error()), kRunFailed);
  });
}

}  // namespace atl::cli
