// Checks what this host offers to Atoll, what it lacks, and how to fix that.
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

// Runs all checks and prints the report, as JSON if `settings` say so. If `settings` name a server
// explicitly, only that daemon is checked. Returns 0 if nothing is missing, else 1. Leaves no
// change on the host.
int Run(const HostOptions& options, const cli::Settings& settings);

}  // namespace atl::doctor
