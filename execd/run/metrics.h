// GET /metrics and /metrics/watch: metrics of the sandbox, not of its host. Sources are its cgroup,
// its root file system and its network namespace.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "runtime/base/result.h"

namespace atl::execd {

// Returns how many CPUs' worth of time the sandbox may use at present; 0: no limit.
double CpuLimit(const Core& core);

// Returns how many bytes commands may still use before the kernel must reclaim memory; INT64_MAX:
// no limit; 0 if there is a limit and the use is not known.
int64_t MemoryRoom(const Core& core);

// Returns the CPU time that the sandbox has used so far, in microseconds; 0 if nothing counts it
// (gVisor). Nothing if the kernel's count cannot be read or understood.
std::optional<int64_t> CpuUsed(const Core& core);

class Metrics {
 public:
  explicit Metrics(Core* core) : core_(*core) {}
  void Get(const std::shared_ptr<Exchange>& exchange);
  void Watch(const std::shared_ptr<Exchange>& exchange);

 private:
  struct CpuSample {
    int64_t at_us = 0;
    std::optional<int64_t> used_us;
  };
  CpuSample SampleCpu() const;
  Result<std::string> Json(const CpuSample& from, const CpuSample& to) const;
  // Answers with what has been used between `from` and the last sample.
  void Respond(const std::shared_ptr<Exchange>& exchange, const CpuSample& from) const;
  void WatchTick(const std::shared_ptr<Exchange>& exchange, CpuSample last, int64_t delay_us);

  Core& core_;
  CpuSample last_;
};

}  // namespace atl::execd
