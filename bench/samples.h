// Durations that were measured, and what is said about them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atl::bench {

// Microseconds of a clock that never jumps.
int64_t NowMicros();

// Lets the machine come to rest: work that earlier requests left behind finishes, the processor
// goes idle. Requests that follow each other at once do not show waits for an RCU grace period.
void Rest(int milliseconds);

class Samples {
 public:
  void AddMicros(int64_t micros) { ms_.push_back(static_cast<double>(micros) / 1000); }
  void AddSince(int64_t start) { AddMicros(NowMicros() - start); }
  void Append(const Samples& other) { ms_.insert(ms_.end(), other.ms_.begin(), other.ms_.end()); }
  size_t size() const { return ms_.size(); }

  // Milliseconds; nearest rank, `fraction` from 0 to 1. No samples: 0.
  double Quantile(double fraction) const;
  double p50() const { return Quantile(0.50); }
  double p99() const { return Quantile(0.99); }

 private:
  std::vector<double> ms_;
};

// "1.23"
std::string Fixed(double value, int digits);

}  // namespace atl::bench
