// What the program measures is a table: each group is a function that returns its rows, in the
// order in which they run. A row says what one sample is, how it is taken, and what is promised of
// it. Statistics and verdicts are those of the report (report.py); nothing here computes any.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::bench {

// What a series keeps, with exactly one of the first two: of its median, or of another quantile.
struct Bound {
  double at_most = NAN;
  double at_least = NAN;
  // "GROUP/SERIES" of the same run: the same quantile of it is what the bound is a ratio to (over),
  // or what is subtracted first (less).
  std::string over, less;
  double quantile = 0.5;
  // Holds on every machine, however slow or busy: broken, it ends the run with exit status 1.
  bool must = false;
};

struct Series {
  std::string name;  // with the group's before it, an identity: "create/busybox: first output"
  std::string what;  // one sample: from → to
  std::string unit;
  std::vector<Bound> bounds;
};

// Where one turn of a phase leaves its samples, in the units of their series.
class Take {
 public:
  virtual void Add(const std::string& series, double value) = 0;
  // What cannot be measured on this host, and why; it is no failure.
  virtual void Absent(const std::string& series, const std::string& why) = 0;
  void AddMs(const std::string& series, int64_t micros) {
    Add(series, static_cast<double>(micros) / 1000);
  }

 protected:
  ~Take() = default;
};

struct Phase {
  // None: it only prepares what comes behind it.
  std::vector<Series> series;
  int samples = 1;
  int warm_up = 0;  // turns before those that count
  int rest_ms = 0;  // before each turn
  // Neighbours with the same one are compared: they take turns, sample by sample.
  std::string turns;
  // Of the host alone: not run again for a second set of programs.
  bool host = false;
  // An error is a failed sample of all of `series`; the run goes on.
  std::function<Status(Take&)> run;
};
using Phases = std::vector<Phase>;

// What a group is told.
struct Setting {
  std::string programs;         // the folder of atolld and what it starts
  std::string busybox, debian;  // archives of images, of 1 and of 12 layers
  bool peers = false;           // other programs that make sandboxes are measured, too
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
