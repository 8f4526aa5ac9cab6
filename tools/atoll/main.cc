// The command line client: finds the server, and does what the verb says.
#include <signal.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <string_view>

#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {

int Report(const Status& status, int failed) {
  if (status) return 0;
  std::fprintf(stderr, "atoll: %s\n", Printable(status.error().message()).c_str());
  return failed;
}

namespace {

void AddGlobalOptions(CLI::App& app, Settings* settings) {
  app.add_option("--server", settings->server,
                 "Server, http://HOST:PORT or https://HOST:PORT (default: the local daemon)")
      ->envname("ATOLL_SERVER");
  // ps(1) shows arguments to everybody: the flag is for throw-away keys.
  app.add_option("--api-key", settings->api_key,
                 "API key; better ATOLL_API_KEY or --api-key-file, other users can see arguments")
      ->envname("ATOLL_API_KEY");
  app.add_option("--api-key-file", settings->api_key_file, "File with the API key")
      ->envname("ATOLL_API_KEY_FILE");
  app.add_option("--cacert", settings->cacert,
                 "PEM file with the authorities that an https server's certificate may be from "
                 "(default: those of this host)")
      ->envname("ATOLL_CACERT");
  app.add_option("--run-dir", settings->run_dir, "Where the local daemon leaves its address")
      ->envname("ATOLL_RUN_DIR")
      ->capture_default_str();
  app.add_flag("--json", settings->json, "Output for programs");
}

// Takes "--" and everything after it off the arguments. CLI11 never sees the command: it would take
// words such as "[1,2]" apart.
Words SplitCommand(int* argc, char** argv) {
  for (int i = 1; i < *argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    Words command(argv + i + 1, argv + *argc);
    *argc = i;
    return command;
  }
  return {};
}

int Main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  const Words command = SplitCommand(&argc, argv);
  CLI::App app("Atoll runs untrusted code in sandboxes on one Linux machine.", "atoll");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Help for all commands");
  Settings settings;
  int exit_code = 0;
  AddGlobalOptions(app, &settings);
  AddRunVerb(app, settings, command, &exit_code);
  AddExecVerb(app, settings, command, &exit_code);
  AddSandboxVerbs(app, settings, &exit_code);
  AddLifecycleVerbs(app, settings, &exit_code);
  AddWatchVerbs(app, settings, &exit_code);
  AddCopyVerb(app, settings, &exit_code);
  AddImageVerbs(app, settings, &exit_code);
  AddNetVerb(app, settings, &exit_code);
  AddVolumeVerbs(app, settings, &exit_code);
  AddDaemonVerbs(app, settings, &exit_code);
  AddCompletionVerb(app, &exit_code);
  AddCompleteVerb(app, settings, command, &exit_code);
  app.footer(
      "Examples:\n"
      "  atoll doctor                                         is this host ready?\n"
      "  atoll image import python.tar --name python:3.11     make an image known\n"
      "  atoll run python:3.11 -- python3 -c 'print(6 * 7)'   run something in a fresh sandbox\n"
      "  atoll ls                                             what is running\n"
      "  atoll shutdown --all                                 end everything\n\n"
      "Without --server the daemon of this machine is used, and its key if it can be read.");
  try {
    app.parse_complete_callback([&] {
      if (!command.empty() && !app.got_subcommand("run") && !app.got_subcommand("exec") &&
          !app.got_subcommand("complete")) {
        throw CLI::ExtrasError({"-- " + command.front()});
      }
    });
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help; CLI11's own numbers for the rest mean nothing to anybody.
    return app.exit(error) == 0 ? 0 : kUsage;
  } catch (const std::exception& error) {
    // Of nlohmann: the server answered with JSON of another shape.
    std::fprintf(stderr, "atoll: unexpected answer: %s\n", error.what());
    return kFailed;
  }
  return exit_code;
}

}  // namespace
}  // namespace atl::cli

int main(int argc, char** argv) {
  return atl::cli::Main(argc, argv);
}
