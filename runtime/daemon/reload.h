// Computes what a changed configuration changes in a running daemon.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

struct Reload {
  Config config;  // the new configuration: `now` with the changes that are possible
  std::vector<std::string> changed;   // names of these keys
  std::vector<std::string> deferred;  // names of keys that differ and need a restart
  std::vector<std::string> warnings;
};

// Loads `sources` again and compares them with the configuration in force. An error changes
// nothing.
Result<Reload> PlanReload(const Config& now, const Sources& sources);

}  // namespace atl::daemon
