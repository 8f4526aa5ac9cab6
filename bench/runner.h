// Runs the phases of a group and writes down each sample as it comes: lines of JSON, which
// report.py reads.
//
//   {"declare": {"id", "what", "unit", "host", "bounds"}}   each chosen series, before anything
//   runs
//   {"sample": [id, side, value]}
//   {"failure": [id, side, message]}
//   {"absent": [id, side, why]}
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/phase.h"

namespace atl::bench {

inline constexpr char kOurs[] = "ours", kAgainst[] = "against";
// So many failed samples in a row, and the rest of a phase is given up.
inline constexpr int kMaxFailures = 3;

// One set of programs: the group's phases, as it returns them for each.
struct Side {
  std::string name;
  Phases phases;
};

struct Choice {
  std::string only;  // series whose name begins so; empty: all
  int samples = 0;   // of each phase; 0: as many as it says
};

// Compared phases and sides take turns. A preparing phase runs if a chosen one is behind it; if it
// fails, everything behind it has failed, on that side.
void RunPhases(const std::string& group, const std::vector<Side>& sides, const Choice& choice,
               const std::function<void(const std::string& line)>& emit);

}  // namespace atl::bench
