// Rows of the group "parts": primitives of our own, each measured alone.
#pragma once

#include <functional>
#include <string>

#include "bench/clock.h"
#include "bench/phase.h"

namespace atl::bench {

// Returns a row whose sample is the mean of `times` calls, in microseconds.
inline Phase Part(const std::string& name, const std::string& what, int samples, int times,
                  const std::function<Status()>& call) {
  return {.series = {{name, what, "µs", {}}},
          .samples = samples,
          .warm_up = 1,
          .run = [=](Take& take) -> Status {
            const int64_t start = NowMicros();
            for (int i = 0; i < times; ++i) ATOLL_TRY(call());
            take.Add(name, static_cast<double>(MicrosSince(start)) / times);
            return {};
          }};
}

void AddAuditParts(Phases* phases);
void AddWireParts(Phases* phases);
void AddHttpParts(Phases* phases);
void AddKernelParts(Phases* phases);
void AddNetworkParts(Phases* phases);

}  // namespace atl::bench
