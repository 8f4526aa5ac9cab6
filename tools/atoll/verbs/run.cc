// atoll run
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cgroup/limits.h"
#include "runtime/base/duration.h"
#include "runtime/base/json_text.h"
#include "tools/atoll/client/accounts.h"
#include "tools/atoll/client/command.h"
#include "tools/atoll/client/create_body.h"
#include "tools/atoll/client/guard.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/code.h"
#include "tools/atoll/verbs/image_list.h"
#include "tools/atoll/verbs/publish.h"
#include "tools/atoll/verbs/terminal.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

Status CheckOptions(const RunOptions& options) {
  const auto wrong = [](const char* text) { return Fail(Code::kInvalidArgument, text); };
  if (options.detach && (options.interactive || options.terminal)) {
    return wrong(
        "-d cannot be combined with -i or -t; start it with -d and a command that goes on "
        "(sleep infinity), then look around with: atoll exec -it ID sh");
  }
  if (options.detach && !options.user.empty()) {
    return wrong("-d with -u: what a sandbox is started with runs as the image's user");
  }
  if (options.terminal && isatty(STDIN_FILENO) != 1) {
    return wrong("-t needs a terminal as standard input; leave it out, -i pipes");
  }
  if (options.detach && options.from_template && !options.command.empty()) {
    return wrong(
        "-d with --template: its program runs already; leave COMMAND out, and start what else "
        "there is to run with: atoll exec -d ID COMMAND");
  }
  for (const std::string& port : options.ports) ATOLL_TRY(ReadPublished(port));
  return {};
}

// Checks the options of --code, which starts no command. "-c CODE" may also follow the image.
Status CheckCodeOptions(CodeOptions* code) {
  RunOptions& options = code->run;
  if (code->code.empty() && options.command.size() == 2 && options.command.front() == "-c") {
    code->code = options.command.back();
    options.command.clear();
  }
  if (options.detach || options.keep || options.terminal || !options.command.empty() ||
      !options.entrypoint.empty() || !options.user.empty() || !options.cwd.empty() ||
      !options.ports.empty()) {
    return Wrong(
        "--code runs code and no command: leave out COMMAND, --entrypoint, -d, -t, -u, -w, -p, "
        "--keep");
  }
  return {};
}

Result<std::string> CreateSandbox(Api& api, const RunOptions& options, const Words& entrypoint,
                                  int timeout_seconds) {
  ATOLL_ASSIGN(const json body, CreateBody(options, entrypoint, timeout_seconds));
  // An interrupt must not end this request: the client would not know which sandbox to delete.
  const auto response = api.Send("POST", "/sandboxes", JsonText(body));
  if (!response) return Fail(response.error());
  ATOLL_ASSIGN(const json created, ObjectOf(*response));
  const std::string id = Printable(TextOf(created, "id"));
  if (id.empty()) return Fail(Code::kInternal, "the server's answer names no sandbox");
  return id;
}

// Prints the address of each port of -p. `published` are the local ports, in the same order.
Status TellPorts(Api& api, const std::string& id, const Words& ports,
                 const std::vector<LocalPort>& published) {
  auto local = published.begin();
  for (const std::string& given : ports) {
    ATOLL_ASSIGN(const Published port, ReadPublished(given));
    if (port.local >= 0) {
      std::fprintf(stderr, "atoll: port %d is reached at 127.0.0.1:%d, on this machine\n",
                   port.inside, local++->number);
      continue;
    }
    ATOLL_ASSIGN(const json endpoint, Fetch(api, "/sandboxes/" + PercentEncode(id) + "/endpoints/" +
                                                     std::to_string(port.inside)));
    const bool secured = !endpoint.value("headers", json::object()).empty();
    std::fprintf(stderr, "atoll: port %d is reached at http://%s%s\n", port.inside,
                 Printable(TextOf(endpoint, "endpoint")).c_str(),
                 secured ? ", with the headers that 'atoll port' tells" : "");
  }
  return {};
}

// Creates the sandbox and publishes its local ports.
Result<std::string> CreatePublished(Api& api, const Settings& settings, const RunOptions& options,
                                    const Words& entrypoint, int timeout_seconds) {
  ATOLL_ASSIGN(std::vector<LocalPort> ports, ListenFor(options.ports));
  ATOLL_ASSIGN(std::string id, CreateSandbox(api, options, entrypoint, timeout_seconds));
  const Status told = TellPorts(api, id, options.ports, ports);
  const Status published = told ? Publish(settings, id, std::move(ports)) : told;
  if (published) return id;
  // Deletes the sandbox, because the caller never learned its id.
  [[maybe_unused]] const auto ignored = api.Send("DELETE", "/sandboxes/" + PercentEncode(id));
  return Fail(published.error());
}

// Wraps the command so that it starts in `cwd`, because the server's create knows only the image's
// directory.
Words InDirectory(const std::string& cwd, Words command) {
  if (cwd.empty() || command.empty()) return command;
  Words words = {"sh", "-c", "mkdir -p -- \"$0\" && cd -- \"$0\" && exec \"$@\"", cwd};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Result<int> RunDetached(Api& api, const Settings& settings, const RunOptions& options,
                        const Words& command) {
  ATOLL_ASSIGN(const std::string id,
               CreatePublished(api, settings, options, InDirectory(options.cwd, command),
                               options.timeout_seconds));
  std::puts(settings.json ? JsonText({{"id", id}}).c_str() : id.c_str());
  return 0;
}

Result<Exit> RunInside(Api& api, const std::string& id, const RunOptions& options, Words argv,
                       int cancel_fd) {
  if (!options.cwd.empty()) {
    // Creates the directory as docker does. Root creates it, because the image's user may not be
    // allowed to.
    ATOLL_TRY(AskExecd(api, id, "/v1/filesystem/0/0/directories",
                       JsonText({{LiteralPath(options.cwd), json::object()}})));
  }
  Command command{std::move(argv), {}, options.cwd};
  if (!options.user.empty()) {
    ATOLL_ASSIGN(command.user, FindUser(api, id, options.user));
  }
  if (options.interactive || options.terminal) {
    return RunInTerminal(api, id, command, options.terminal);
  }
  command.stop_on_interrupt = options.keep;
  return RunCommand(api, id, command, cancel_fd);
}

Result<int> Run(const Settings& settings, const RunOptions& options) {
  ATOLL_TRY(CheckOptions(options));
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  const auto image = options.snapshot || options.from_template ? Result<json>(json::object())
                                                               : FindImage(api, options.image);
  // An image that is still being imported does not exist yet, but a sandbox can be created from it.
  const bool coming = !image && image.error().code() == Code::kNotFound && !options.command.empty();
  if (!image && !coming) return Fail(image.error());
  // A template's program runs already, so -d has nothing to start.
  if (options.detach && options.from_template) return RunDetached(api, settings, options, {});
  ATOLL_ASSIGN(Words command, CommandOf(options, image.value_or(json::object())));
  if (options.detach) return RunDetached(api, settings, options, command);

  const int lease =
      options.keep ? options.timeout_seconds : std::min(options.timeout_seconds, Guard::kLease);
  ATOLL_ASSIGN(const std::string id, CreatePublished(api, settings, options, {}, lease));
  const time_t begun = time(nullptr);
  std::optional<Guard> guard;
  if (!options.keep) {
    ATOLL_ASSIGN(guard, Guard::Start(settings, id, options.timeout_seconds));
  }
  auto exit = RunInside(api, id, options, std::move(command), cancel_fd);
  if (!exit && exit.error().code() == Code::kNotFound &&
      time(nullptr) >= begun + options.timeout_seconds) {
    exit = Fail(Code::kDeadlineExceeded,
                "the sandbox has expired before the command ended: its --timeout was " +
                    DurationText(options.timeout_seconds));
  }
  const Result<int> code = exit ? Result<int>(Tell(api, settings, id, *exit)) : Fail(exit.error());
  if (options.keep) {
    std::fprintf(stderr, "atoll: sandbox %s is kept; remove it with: atoll rm %s\n", id.c_str(),
                 id.c_str());
    return code;
  }
  const auto removed = api.Send("DELETE", "/sandboxes/" + PercentEncode(id));
  const bool gone = removed || removed.error().code() == Code::kNotFound;
  if (gone) guard->Release();
  // The guard keeps trying to delete the sandbox.
  if (code && !gone) return Fail(Error(removed.error()).Wrap("cannot delete sandbox " + id));
  return code;
}

// Adds one option for each key of resourceLimits, some under docker's names.
void AddLimitOptions(Verb& run, RunOptions* options) {
  std::map<std::string, std::string> texts;
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    std::string& text = texts[field.key];
    if (!text.empty()) text += ", ";
    text += std::string(field.key) == field.name ? "" : std::string(field.name) + "=";
    text += field.what;
  }
  const std::map<std::string, std::string> names = {{"memory", "-m,--memory"},
                                                    {"cpu", "--cpu,--cpus"},
                                                    {"pids", "--pids-limit,--pids"},
                                                    {"shm", "--shm-size,--shm"}};
  for (const auto& [key, text] : texts) {
    const auto known = names.find(key);
    run.Takes(Option{.names = known != names.end() ? known->second : "--" + key,
                     .value = "LIMIT",
                     .what = "Limit: " + text,
                     .target = &options->limits[key]});
  }
}

}  // namespace

void AddRunVerb(Verb& root, const Settings& settings) {
  const auto options = std::make_shared<CodeOptions>();
  RunOptions* const o = &options->run;
  Verb& run = root.Add("run", "Run a command in a new sandbox, then delete the sandbox");
  run.Takes(Argument{
      "IMAGE", "Image, as 'atoll image ls' shows it", &o->image, true, {}, &options->language});
  run.TakesCommand(Argument{"COMMAND",
                            "Goes behind the image's ENTRYPOINT; without one the image's CMD does",
                            &o->command, false});
  run.Takes(Option{"--code", "LANGUAGE",
                   "As 'atoll code -l LANGUAGE IMAGE', which is told more by its own --help",
                   &options->language});
  run.Takes(Option{"-c", "CODE", "With --code: run this, then end", &options->code});
  run.Takes(Option{"--snapshot", "", "IMAGE is the id of a snapshot", &o->snapshot});
  run.Takes(Option{"--template", "", "IMAGE is the id of a template, whose program runs already",
                   &o->from_template});
  run.Takes(Option{"-i,--interactive", "", "Pass our standard input on", &o->interactive});
  run.Takes(Option{"-t,--tty", "", "Give it a terminal, as large as ours", &o->terminal});
  run.Takes(Option{"-d,--detach", "",
                   "Leave the command running as the sandbox's own, print its id", &o->detach});
  run.Takes(Option{"-e,--env", "NAME=VALUE", "Set a variable; NAME alone passes ours on", &o->env});
  run.Takes(Option{"--env-file", "FILE", "Variables, one a line", &o->env_files});
  run.Takes(Option{"-u,--user", "USER[:GROUP]", "By name or number; else the image's", &o->user});
  run.Takes(Option{"-w,--workdir", "PATH",
                   "Directory to run in, made if it is not there; else the image's", &o->cwd});
  run.Takes(Option{"-v,--volume", "SOURCE:PATH[:ro]",
                   "A named volume, or a directory of the host that the operator allows",
                   &o->volumes});
  run.Takes(Option{"-p,--publish", "[HOST:]PORT",
                   "Open port HOST of 127.0.0.1 as this port inside; without HOST, tell where the "
                   "server has it",
                   &o->ports});
  run.Takes(Option{"--entrypoint", "PROGRAM", "In place of the image's ENTRYPOINT and CMD",
                   &o->entrypoint});
  run.Takes(Option{"--network", "NAME",
                   "A network whose sandboxes reach each other by --name; none: nothing at all",
                   &o->network});
  run.Takes(Option{"--policy", "FILE",
                   "What it may reach: a networkPolicy as JSON, in a file or as it is",
                   &o->policy});
  run.Takes(Option{"--read-only", "", "Nothing in the image's files can be changed", &o->readonly});
  run.Takes(Option{"--gpus", "N|all", "GPUs of the host, each for this sandbox alone",
                   &o->limits["gpu"]});
  run.Takes(Option{"--isolation", "KIND",
                   "The wall around it: namespace, gvisor or microvm; else what the operator chose",
                   &o->isolation});
  run.Takes(Option{"--secure", "",
                   "Its ports ask for a token (atoll port) or a signed link (atoll open "
                   "--expires); else whoever reaches the server opens them",
                   &o->secure});
  AddLimitOptions(run, o);
  run.Takes(Option{"--name", "NAME", "Name, which no other may have; kept as the metadata 'name'",
                   &o->name});
  run.Takes(Option{"-l,--metadata,--label", "KEY=VALUE", "Metadata", &o->labels});
  run.Takes(Option{"--timeout", "DURATION", "Until the sandbox is removed whatever runs in it",
                   &o->timeout_seconds, Seconds(60, 10 * 365 * 86400)});
  run.Takes(Option{"--pause-memory", "keep|reclaim",
                   "What becomes of its memory while it is paused: reclaim brings it to swap",
                   &o->pause_memory});
  run.Takes(Option{"--idle", "DURATION[:ACTION]",
                   "Nobody uses it for so long: pause (until the next request) or end", &o->idle});
  run.Takes(Option{"--pool", "NAME", "One of this pool, which has sandboxes of the image waiting",
                   &o->pool});
  run.Takes(Option{"--keep", "", "Leave the sandbox running afterwards", &o->keep});
  run.Takes(
      Option{"--rm", "",
             "With -d: remove it a minute after its command has ended, or at once by 'atoll stop', "
             "'kill' and 'wait'. Without -d as always: nothing stays of it",
             &o->remove});
  run.Says(
      "Output and input pass byte for byte. The exit code is the command's; 128 + n if signal n\n"
      "ended it, and why is told; 125 if the sandbox could not be made or went away. Without -d\n"
      "and --keep the sandbox is gone when this ends, however it ends.\n\n"
      "Examples:\n"
      "  atoll run python:3.11 python3 -c 'print(6 * 7)'\n"
      "  atoll run -it alpine\n"
      "  atoll run -m 256m -e DEBUG=1 alpine sh -c 'echo $DEBUG; nproc'\n"
      "  atoll run -i alpine gzip <file >file.gz\n"
      "  atoll run -d --name web -p 8080:8000 -v site:/srv python:3.11 python3 -m http.server\n"
      "  atoll run --network none alpine wget example.org\n"
      "  atoll run --code python -c 'print(6 * 7)'\n"
      "  atoll run --snapshot 2c5ea4c0-1b1e-4b59-9d2b-3f8a8d1d8a52 sh -c 'cat /notes'");
  run.Does(
      [options, &settings]() -> Result<int> {
        if (!options->language.empty()) {
          ATOLL_TRY(CheckCodeOptions(options.get()));
          return RunCode(settings, *options);
        }
        if (!options->code.empty()) return Wrong("-c goes with --code; processors are --cpus");
        return Run(settings, options->run);
      },
      kRunFailed);
}

}  // namespace atl::cli
