// The parsed command line of atolld: what to do, and the sources of the configuration.
#pragma once

#include <optional>
#include <string>

#include "runtime/daemon/config.h"

namespace atl::daemon {

struct CommandLine {
  enum class Action {
    kServe,
    kCheckConfig,  // print the effective configuration
    kInitConfig,   // write the example file
    kStorageInit,  // make a store that enforces disk limits
    kRestore,      // restore the state of a backup
    kSpawner,      // become the spawner
  };
  Action action = Action::kServe;
  Sources sources;  // includes the process's environment
  std::string example_path = kDefaultConfigPath;
  bool force = false;
  std::string store_size;      // empty: half of the free space
  std::string backup;          // the file to restore
  std::string spawner_cgroup;  // empty: a group of its own at the top
  bool spawner_trial = false;  // only check whether it could serve
};

// Empty if the process should exit at once with `*exit_code`: after --help, or after an error
// message on standard error.
std::optional<CommandLine> ParseCommandLine(int argc, char** argv, int* exit_code);

}  // namespace atl::daemon
