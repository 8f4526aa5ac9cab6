// The table of measurements. Each group is a function that returns its rows in the order in which
// they run. A row defines one sample, the way to take it, and the bounds that it must keep.
// report.py computes all statistics and verdicts; nothing here does.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::bench {

// A bound on the median of a series, or on another quantile. Exactly one of `at_most` and
// `at_least` is set.
struct Bound {
  double at_most = NAN;
  double at_least = NAN;
  // "GROUP/SERIES" of the same run. The bound applies to the ratio to that series' quantile (over),
  // or to the difference from it (less).
  std::string over, less;
  double quantile = 0.5;
  // The bound holds on every machine, however slow or busy. If it is broken, the run exits with 1.
  bool must = false;
};

struct Series {
  std::string name;  // unique with the group's name before it: "create/busybox: first output"
  std::string what;  // start and end of one sample: from → to
  std::string unit;
  std::vector<Bound> bounds;
};

// Receives the samples of one turn of a phase, in the units of their series.
class Take {
 public:
  virtual void Add(const std::string& series, double value) = 0;
  // Records that this host cannot measure `series`, and why. This is not a failure.
  virtual void Absent(const std::string& series, const std::string& why) = 0;
  void AddMs(const std::string& series, int64_t micros) {
    Add(series, static_cast<double>(micros) / 1000);
  }

 protected:
  ~Take() = default;
};

struct Phase {
  // Series that the phase measures. If there are none, it only prepares the phases after it.
  std::vector<Series> series;
  int samples = 1;
  int warm_up = 0;  // turns before the first sample that counts
  int rest_ms = 0;  // pause before each turn
  // Adjacent phases with the same value are compared: they take turns, sample by sample.
  std::string turns;
  // The phase measures the host alone, so it does not run again for a second set of programs.
  bool host = false;
  // Takes one sample. An error is a failed sample of all `series`, and the run goes on.
  std::function<Status(Take&)> run;
};
using Phases = std::vector<Phase>;

// Settings of a run that every group receives.
struct Setting {
  std::string programs;         // folder of atolld and the programs that it starts
  std::string busybox, debian;  // image archives with 1 and with 12 layers
  bool peers = false;           // measures other programs that make sandboxes, too
};

Phases CreatePhases(const Setting& setting);
Phases LoadPhases(const Setting& setting);
Phases CommandPhases(const Setting& setting);
Phases ApiPhases(const Setting& setting);
Phases NetworkPhases(const Setting& setting);
Phases DnsPhases(const Setting& setting);
Phases SplicePhases(const Setting& setting);
Phases SpawnerPhases(const Setting& setting);
Phases PartsPhases(const Setting& setting);

}  // namespace atl::bench
