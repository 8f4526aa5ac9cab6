// GET /metrics and /metrics/watch, of the sandbox and not of its host: from its cgroup, its root
// file system and its network namespace.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

// How many processors' worth of time the sandbox may use, as of now; 0: no limit.
double CpuLimit(const Core& core);

// Bytes that commands may still use before the kernel has to take something back; INT64_MAX: no
// limit.
int64_t MemoryRoom(const Core& core);

// Processor time that it has used so far, in microseconds; 0 where nothing counts it.
int64_t CpuUsed(const Core& core);

class Metrics {
 public:
  explicit Metrics(Core* core) : core_(*core) {}
  void Get(const std::shared_ptr<Exchange>& exchange);
  void Watch(const std::shared_ptr<Exchange>& exchange);

 private:
  struct CpuSample {
    int64_t at_us = 0;
    int64_t used_us = 0;
  };
  CpuSample SampleCpu() const;
  std::string Json(const CpuSample& from, const CpuSample& to) const;
  void WatchTick(const std::shared_ptr<Exchange>& exchange, CpuSample last, int64_t delay_us);

  Core& core_;
  CpuSample last_;
};

}  // namespace atl::execd
