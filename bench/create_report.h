// What bench/create says at its end: tables in Markdown, and the verdicts.
#pragma once

#include <string>
#include <vector>

#include "bench/create_phases.h"
#include "bench/host_view.h"

namespace atl::bench {

struct Results {
  HostFacts host;
  int count = 0;
  ColdResults cold;
  ExecResults exec;
  DeleteResults deletes;
  std::vector<Burst> bursts;
  std::vector<Throughput> throughput;
  Idle idle;
};

std::string RenderTables(const Results& results);

// Milliseconds and rates of this machine against the product's promises: "met" or "not met".
std::string RenderPromises(const Results& results);

// What must hold on every machine, however slow or busy: one line for each that does not.
std::vector<std::string> Violations(const Results& results);

}  // namespace atl::bench
