#include "runtime/daemon/command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "runtime/daemon/config_keys.h"

namespace atl::daemon {
namespace {

constexpr char kFooter[] =
    "A setting comes from its default, the file, the environment (ATOLL_SECTION_NAME) or a "
    "flag;\nlater sources override earlier ones. 'atolld init-config' writes a file with every key "
    "explained.";

using FlagValues = std::vector<std::vector<std::string>>;

void AddKeys(CLI::App* app, FlagValues* values) {
  values->resize(Keys().size());
  for (size_t i = 0; i < Keys().size(); ++i) {
    const Key& key = Keys()[i];
    CLI::Option* option = app->add_option(FlagOf(key), (*values)[i], key.help)->group(key.section);
    // If a flag is given twice the last one counts, as wrapper scripts expect.
    const bool many = key.kind == Key::Kind::kList || key.kind == Key::Kind::kRows;
    if (!many) option->expected(1)->take_last();
  }
}

std::vector<Override> OverridesOf(const FlagValues& values, bool insecure) {
  std::vector<Override> overrides;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string flag = FlagOf(Keys()[i]);
    if (insecure && flag == "--server-insecure-no-api-key") {
      overrides.push_back({i, {"true"}, "--insecure-no-api-key"});
    } else if (!values[i].empty()) {
      overrides.push_back({i, values[i], flag});
    }
  }
  return overrides;
}

size_t IndexOf(const std::string& flag) {
  const auto same = [&flag](const Key& key) { return FlagOf(key) == flag; };
  return static_cast<size_t>(std::find_if(Keys().begin(), Keys().end(), same) - Keys().begin());
}

}  // namespace

std::optional<CommandLine> ParseCommandLine(int argc, char** argv, int* exit_code) {
  CommandLine line;
  CLI::App app("Atoll's daemon: runs sandboxes and serves the OpenSandbox API.", "atolld");
  app.footer(kFooter);
  const CLI::Option* path =
      app.add_option("--config", line.sources.path, "configuration file (TOML)")
          ->capture_default_str()
          ->take_last();
  bool check = false;
  app.add_flag(
      "--check-config", check,
      "print the effective configuration, without secrets, and report problems; needs no root");
  bool insecure = false;
  app.add_flag("--insecure-no-api-key", insecure, "same as --server-insecure-no-api-key true");
  FlagValues values;
  AddKeys(&app, &values);
  CLI::App* init = app.add_subcommand("init-config", "write a configuration file with every key");
  init->add_option("path", line.example_path, "where to")->capture_default_str();
  init->add_flag("--force", line.force, "replace an existing file");
  CLI::App* spawner = app.add_subcommand(
      "spawner", "become the spawner, with the same configuration (for its systemd unit)");
  // Flags of the daemon may follow the subcommand.
  spawner->fallthrough();
  spawner->add_option("--cgroup", line.spawner_cgroup,
                      "cgroup that systemd has delegated, as a path in the v2 hierarchy");
  spawner->add_flag("--trial", line.spawner_trial,
                    "only check whether the installed program could take over, and exit");
  CLI::App* storage = app.add_subcommand("storage", "prepare the storage of sandboxes");
  storage->require_subcommand(1);
  CLI::App* storage_init = storage->add_subcommand(
      "init", "make a store that enforces disk limits: an XFS image file in the data directory");
  storage->fallthrough();
  storage_init->fallthrough();
  storage_init->add_option("--size", line.store_size,
                           "size of the store (default: half of the free space)");
  CLI::App* restore = app.add_subcommand(
      "restore",
      "restore the state of a backup ('atoll backup FILE') into an empty state directory");
  restore->fallthrough();
  restore->add_option("FILE", line.backup, "file that 'atoll backup' has written")->required();
  std::vector<std::string> data_dir;
  restore->add_option("--data-dir", data_dir, "same as --storage-data-dir")->expected(1);
  storage_init->add_option("--data-dir", data_dir, "same as --storage-data-dir")->expected(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error);
    return std::nullopt;
  }
  if (check) line.action = CommandLine::Action::kCheckConfig;
  if (init->parsed()) line.action = CommandLine::Action::kInitConfig;
  if (storage_init->parsed()) line.action = CommandLine::Action::kStorageInit;
  if (restore->parsed()) line.action = CommandLine::Action::kRestore;
  if (spawner->parsed()) line.action = CommandLine::Action::kSpawner;
  line.sources.must_exist = path->count() > 0;
  line.sources.flags = OverridesOf(values, insecure);
  if (!data_dir.empty()) {
    line.sources.flags.push_back({IndexOf("--storage-data-dir"), data_dir, "--data-dir"});
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    line.sources.environment.emplace_back(*entry);
  }
  return line;
}

}  // namespace atl::daemon
