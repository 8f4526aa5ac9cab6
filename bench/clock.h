// Time, for measurements.
#pragma once

#include <cstdint>

namespace atl::bench {

// Returns microseconds of a clock that never jumps.
int64_t NowMicros();
inline int64_t MicrosSince(int64_t start) {
  return NowMicros() - start;
}

// Sleeps until the machine is idle: work that earlier requests left behind finishes. Without a
// rest, a series of requests hides the waits for an RCU grace period.
void Rest(int milliseconds);

}  // namespace atl::bench
