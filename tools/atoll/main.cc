// The command line client.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "runtime/base/standard_streams.h"
#include "tools/atoll/client/report.h"
#include "tools/atoll/verbs/code.h"
#include "tools/atoll/verbs/verbs.h"

namespace atl::cli {

namespace {

void AddGlobalOptions(Verb& root, Settings* settings, bool* version) {
  root.Takes(Option{.names = "--server",
                    .value = "URL",
                    .what = "http://HOST:PORT or https://HOST:PORT; else the local daemon",
                    .target = &settings->server,
                    .variable = "ATOLL_SERVER"});
  // ps(1) shows arguments to all users, so this option is only for temporary keys.
  root.Takes(Option{.names = "--api-key",
                    .value = "KEY",
                    .what = "API key; better by the variable or a file, others can see arguments",
                    .target = &settings->api_key,
                    .variable = "ATOLL_API_KEY"});
  root.Takes(Option{.names = "--api-key-file",
                    .value = "FILE",
                    .what = "File with the API key",
                    .target = &settings->api_key_file,
                    .variable = "ATOLL_API_KEY_FILE"});
  root.Takes(Option{.names = "--cacert",
                    .value = "FILE",
                    .what = "PEM file with the authorities that an https server's certificate may "
                            "be from; else those of this host",
                    .target = &settings->cacert,
                    .variable = "ATOLL_CACERT"});
  root.Takes(Option{.names = "--run-dir",
                    .value = "DIRECTORY",
                    .what = "Where the local daemon leaves its address; else /run/atoll",
                    .target = &settings->run_dir,
                    .variable = "ATOLL_RUN_DIR"});
  root.Takes(
      Option{.names = "--tenant",
             .value = "NAME",
             .what = "For roles of the host: only objects of this tenant, and the names it gave",
             .target = &settings->tenant});
  root.Takes(Option{.names = "--reason",
                    .value = "TEXT",
                    .what = "For admins who enter a sandbox of another tenant: why, which the "
                            "tenant reads; 8 characters at least",
                    .target = &settings->reason});
  root.Takes(Option{.names = "--json",
                    .value = {},
                    .what = "For programs: answers are JSON, and so is on stderr, a line each, why "
                            "something failed and how a command ended",
                    .target = &settings->json});
  root.Takes(
      Option{.names = "--version", .value = {}, .what = "Print the version", .target = version});
}

void AddVerbs(Verb& root, const Settings& settings) {
  AddRunVerb(root, settings);
  AddExecVerb(root, settings);
  AddCodeVerb(root, settings);
  AddSandboxVerbs(root, settings);
  AddLogVerbs(root, settings);
  AddReplayVerb(root, settings);
  AddStatsVerbs(root, settings);
  AddDiskVerb(root, settings);
  AddEventsVerb(root, settings);
  AddEndingVerbs(root, settings);
  AddLifecycleVerbs(root, settings);
  AddPortVerbs(root, settings);
  AddCopyVerb(root, settings);
  AddImageVerbs(root, settings);
  AddBranchVerbs(root, settings);
  AddSnapshotVerbs(root, settings);
  AddPoolVerbs(root, settings);
  AddTemplateVerbs(root, settings);
  AddVolumeVerbs(root, settings);
  AddNetVerb(root, settings);
  AddDaemonVerbs(root, settings);
  AddAuditVerbs(root, settings);
  AddLoginVerbs(root, settings);
  AddTenantVerbs(root, settings);
  AddUsageVerb(root, settings);
  AddVmVerbs(root, settings);
  AddHelpVerbs(root, settings);
  root.Says(
      "Examples:\n"
      "  atoll doctor                                      is this host ready?\n"
      "  atoll image import python.tar --name python:3.11  make an image known\n"
      "  atoll run python:3.11 python3 -c 'print(6 * 7)'   run something in a fresh sandbox\n"
      "  atoll run -it alpine                              look around in one\n"
      "  atoll ps                                          what is running\n"
      "  atoll shutdown --all                              end everything\n\n"
      "Without --server the daemon of this machine is used, and its key if it can be read.\n"
      "Durations are 90s, 5m, 2h, 1d or 1h30m; a number alone counts seconds. Times are UTC.\n"
      "Exit codes: 1 failed; 2 the words were wrong, or name nothing that there is; of run and "
      "exec\n"
      "the command's own, or 125.");
}

// Returns true for usage errors: a retry without other words would not help. A failed system call
// is no usage error: its ENOENT may be about a program or a file of this host.
bool IsWrongWord(const Error& error) {
  if (error.error_number() != 0) return false;
  return error.code() == Code::kInvalidArgument || error.code() == Code::kNotFound;
}

int Main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  Settings settings;
  bool version = false;
  Verb root("atoll", "Atoll runs untrusted code in sandboxes on one Linux machine");
  AddGlobalOptions(root, &settings, &version);
  AddVerbs(root, settings);
  Line line;
  const Status read = ReadLine(root, Words(argv + 1, argv + argc), &line);
  if (line.help) {
    std::fputs(HelpText(*line.verb).c_str(), stdout);
    return 0;
  }
  if (version) return root.Find("version")->act()().value_or(kFailed);
  if (!read) {
    // --json counts even after the wrong word.
    settings.json = settings.json || std::any_of(argv + 1, argv + argc, [](const char* word) {
                      return std::string_view(word) == "--json";
                    });
    Report(settings, read.error());
    if (!settings.json) {
      std::fprintf(stderr, "%s\nMore: %s --help\n", UsageLine(*line.verb).c_str(),
                   line.verb->Path().c_str());
    }
    return kUsage;
  }
  try {
    const Result<int> done = line.verb->act()();
    if (done) return *done;
    Report(settings, done.error());
    if (line.verb->failed() == kFailed && IsWrongWord(done.error())) return kUsage;
  } catch (const std::exception& error) {
    // Thrown by nlohmann::json: the server answered with JSON of another shape.
    Report(settings, Error(Code::kInternal, std::string("unexpected answer: ") + error.what()));
  }
  return line.verb->failed();
}

}  // namespace
}  // namespace atl::cli

int main(int argc, char** argv) {
  atl::OpenStandardStreams();
  return atl::cli::Main(argc, argv);
}
