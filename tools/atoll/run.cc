// atoll run
#include <unistd.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cgroup/limits.h"
#include "runtime/base/cleanup.h"
#include "tools/atoll/api.h"
#include "tools/atoll/command.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/terminal.h"
#include "tools/atoll/usage.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

using nlohmann::json;

struct RunOptions {
  std::string image;
  std::vector<std::string> env;
  std::vector<std::string> metadata;
  std::string name;
  std::map<std::string, std::string> limits;  // as in resourceLimits; empty: not asked for
  std::string cwd;
  // A day: a sandbox whose client was killed goes away by itself.
  int timeout_seconds = 86400;
  bool keep = false;
  bool interactive = false;
};

Result<std::string> CreateBody(const RunOptions& options) {
  ATOLL_ASSIGN(const auto env, ExpandEnvironment(options.env));
  // Waits for ever and needs nothing but the shell that the command needs as well: small images
  // have no tail or sleep.
  json body = {{"image", {{"uri", options.image}}},
               {"entrypoint", {"sh", "-c", "kill -STOP $$"}},
               {"resourceLimits", json::object()},
               {"timeout", options.timeout_seconds}};
  if (!env.empty()) body["env"] = json::parse(EnvironmentJson(env));
  for (const auto& [key, text] : options.limits) {
    if (!text.empty()) body["resourceLimits"][key] = text;
  }
  if (!options.name.empty()) body["metadata"]["name"] = options.name;
  for (const std::string& entry : options.metadata) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail(Code::kInvalidArgument, "--metadata " + entry + ": KEY=VALUE is expected");
    }
    body["metadata"][entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::string> CreateSandbox(Api& api, const RunOptions& options) {
  ATOLL_ASSIGN(const std::string body, CreateBody(options));
  // Not interrupted: whoever gives up here would not know what to delete.
  ATOLL_ASSIGN(const http::Response response, api.Send("POST", "/sandboxes", body));
  const auto created = json::parse(response.body, nullptr, false);
  const std::string id = created.is_object() ? created.value("id", "") : "";
  if (id.empty()) return Fail(Code::kInternal, "the server's answer names no sandbox");
  return id;
}

Result<int> Run(const Settings& settings, const RunOptions& options, const Words& command) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, CreateSandbox(api, options));
  auto code =
      options.interactive
          ? RunInTerminal(api, id, {command, {}, options.cwd}, false)
          : RunCommand(api, id, {command, {}, options.cwd, {}, false, options.keep}, cancel_fd);
  if (options.keep) {
    std::fprintf(stderr, "atoll: sandbox %s is kept; remove it with: atoll rm %s\n", id.c_str(),
                 id.c_str());
    return code;
  }
  const auto removed = api.Send("DELETE", "/sandboxes/" + PercentEncode(id));
  // It may have expired while the command ran.
  if (code && !removed && removed.error().code() != Code::kNotFound) {
    return Fail(Error(removed.error()).Wrap("cannot delete sandbox " + id));
  }
  return code;
}

// One for each key of resourceLimits, two of them with a letter.
void AddLimitOptions(CLI::App* run, RunOptions* options) {
  std::map<std::string, std::string> texts;
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    std::string& text = texts[field.key];
    if (!text.empty()) text += ", ";
    text += std::string(field.key) == field.name ? "" : std::string(field.name) + "=";
    text += field.what;
  }
  for (const auto& [key, text] : texts) {
    const std::string letter = key == "memory" ? "-m," : key == "cpu" ? "-c," : "";
    run->add_option(letter + "--" + key, options->limits[key], "Limit: " + text);
  }
}

}  // namespace

void AddRunVerb(CLI::App& app, const Settings& settings, const Words& command, int* exit_code) {
  CLI::App* run = app.add_subcommand("run", "Run a command in a new sandbox, then delete it");
  SetUsage(run, "atoll run [OPTIONS] IMAGE -- COMMAND [ARGUMENT…]");
  const auto options = std::make_shared<RunOptions>();
  run->add_option("IMAGE", options->image, "Image, as 'atoll image ls' shows it")->required();
  run->add_option("-e,--env", options->env, "NAME=VALUE, or NAME to pass our own on; repeatable")
      ->allow_extra_args(false);
  run->add_option("-w,--workdir", options->cwd, "Directory to run in (default: the image's)");
  AddLimitOptions(run, options.get());
  run->add_option("--timeout", options->timeout_seconds,
                  "Seconds until the sandbox is removed whatever runs in it")
      ->capture_default_str()
      ->check(CLI::Range(60, 10 * 365 * 86400));
  run->add_option("--name", options->name, "Name, kept as the metadata 'name'");
  run->add_option("--metadata", options->metadata, "KEY=VALUE; repeatable")
      ->allow_extra_args(false);
  run->add_flag("-i,--interactive", options->interactive, "Pass our standard input on");
  run->add_flag("--keep", options->keep, "Leave the sandbox running afterwards");
  run->footer(
      "Output is streamed. The exit code is the command's; 125 if the sandbox could not be made "
      "or\n"
      "reached; 255 if the command was killed. The first Ctrl-C stops it and deletes the sandbox.\n"
      "Output and input pass byte for byte.\n\n"
      "Examples:\n"
      "  atoll run python:3.11 -- python3 -c 'print(6 * 7)'\n"
      "  atoll run -m 256Mi -e DEBUG=1 alpine -- sh -c 'echo $DEBUG; nproc'\n"
      "  atoll run -i alpine -- gzip <file >file.gz\n"
      "  atoll run --keep --name try alpine -- true");
  run->callback([options, &settings, &command, exit_code] {
    if (command.empty()) throw CLI::RequiredError("-- COMMAND");
    const auto code = Run(settings, *options, command);
    *exit_code = code ? *code : Report(Fail(code.error()), kRunFailed);
  });
}

}  // namespace atl::cli
