// What this host offers to Atoll, what is missing, and how to mend it.
#pragma once

#include <cstdint>
#include <string>

#include "tools/atoll/client/settings.h"

namespace atl::doctor {

struct HostOptions {
  std::string data_dir = "/var/lib/atoll";
  std::string run_dir = "/run/atoll";
  std::string user = "atoll";
  uint16_t port = 8080;
};

// Runs all checks and prints the report, as a JSON object if `settings` say so, which also name the
// daemon: one that was named explicitly is looked at alone. 0 if nothing is missing, else 1.
// Changes nothing that outlives it.
int Run(const HostOptions& options, const cli::Settings& settings);

}  // namespace atl::doctor
