// What atolld was called with: something to do, and where its configuration comes from.
#pragma once

#include <optional>
#include <string>

#include "runtime/daemon/config.h"

namespace atl::daemon {

struct CommandLine {
  enum class Action {
    kServe,
    kCheckConfig,  // say what is in force, and end
    kInitConfig,   // write the example file, and end
    kStorageInit,  // make a store that enforces disk limits, and end
    kRestore,      // put the state of a backup in place, and end
    kSpawner,      // become the spawner
  };
  Action action = Action::kServe;
  Sources sources;  // the process's environment included
  std::string example_path = kDefaultConfigPath;
  bool force = false;
  std::string store_size;      // empty: half of what is free
  std::string backup;          // the file to restore
  std::string spawner_cgroup;  // empty: a group of its own at the top
  bool spawner_trial = false;  // only find out whether it could serve
};

// Nothing if the process is to end at once with `*exit_code`: after --help, or with a complaint on
// standard error.
std::optional<CommandLine> ParseCommandLine(int argc, char** argv, int* exit_code);

}  // namespace atl::daemon
