// What a changed configuration file changes in a daemon that runs.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

struct Reload {
  Config config;                      // to be in force: `now` with the changes that are possible
  std::vector<std::string> changed;   // names of the keys that these are
  std::vector<std::string> deferred;  // of those that differ and need a restart
  std::vector<std::string> warnings;
};

// Compares all `sources` anew with what is in force. An error changes nothing.
Result<Reload> PlanReload(const Config& now, const Sources& sources);

}  // namespace atl::daemon
