// atoll shutdown|version|doctor
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

#include "tools/atoll/api.h"
#include "tools/atoll/verbs.h"
#include "tools/doctor/doctor.h"

namespace atl::cli {
namespace {

Status Shutdown(const Settings& settings, bool all) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_TRY(api.Send("POST", all ? "/shutdown?all=true" : "/shutdown"));
  if (!settings.json) {
    std::puts(all ? "all sandboxes are gone, the daemon is stopping"
                  : "the daemon is stopping; its sandboxes keep running");
  }
  return {};
}

}  // namespace

void AddDaemonVerbs(CLI::App& app, const Settings& settings, int* exit_code) {
  CLI::App* shutdown = app.add_subcommand("shutdown", "Stop the daemon");
  const auto all = std::make_shared<bool>(false);
  shutdown->add_flag("--all", *all, "Delete all sandboxes first, and end the spawner, too");
  shutdown->footer(
      "Without --all the sandboxes keep running, and the next daemon takes them over.");
  shutdown->callback(
      [all, &settings, exit_code] { *exit_code = Report(Shutdown(settings, *all)); });

  CLI::App* version = app.add_subcommand("version", "Print the version");
  version->callback([&settings, exit_code] {
    std::printf(settings.json ? "{\"version\":\"%s\"}\n" : "atoll %s\n", ATOLL_VERSION);
    *exit_code = 0;
  });

  CLI::App* doctor = app.add_subcommand(
      "doctor", "Check what this host offers, what is missing, and how to mend it");
  const auto host = std::make_shared<doctor::HostOptions>();
  doctor->add_option("--data-dir", host->data_dir, "Where the daemon keeps its data")
      ->capture_default_str();
  doctor->add_option("--port", host->port, "Port that the daemon is to listen on")
      ->capture_default_str();
  doctor->add_option("--user", host->user, "User that the daemon runs as")->capture_default_str();
  doctor->footer(
      "Run it as root: some checks really make namespaces and mounts, in a child process, and "
      "leave\n"
      "nothing behind. Exit code 0 if nothing is missing (warnings do not count), else 1.");
  doctor->callback([host, &settings, exit_code] {
    host->run_dir = settings.run_dir;
    *exit_code = doctor::Run(*host, settings);
  });
}

}  // namespace atl::cli
