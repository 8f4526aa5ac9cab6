// Runs the phases of a group and emits each sample at once, as lines of JSON that report.py reads.
//
//   {"declare": {"id", "what", "unit", "host", "bounds"}}   each chosen series, before anything
//                                                           runs
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
// A phase is given up after so many failed samples in a row.
inline constexpr int kMaxFailures = 3;

// One set of programs, with the group's phases for it.
struct Side {
  std::string name;
  Phases phases;
};

struct Choice {
  std::string only;  // prefix of the chosen series' names; empty: all
  int samples = 0;   // samples per phase; 0: the phase's own number
};

// Runs the chosen phases. Compared phases and sides take turns. A preparing phase runs if a chosen
// phase comes after it. If a preparing phase fails, every phase after it counts as failed on that
// side.
void RunPhases(const std::string& group, const std::vector<Side>& sides, const Choice& choice,
               const std::function<void(const std::string& line)>& emit);

}  // namespace atl::bench
