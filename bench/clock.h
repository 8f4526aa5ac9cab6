// Time, for measurements.
#pragma once

#include <cstdint>

namespace atl::bench {

// Microseconds of a clock that never jumps.
int64_t NowMicros();
inline int64_t MicrosSince(int64_t start) {
  return NowMicros() - start;
}

// Lets the machine come to rest: work that earlier requests left behind finishes, the processor
// goes idle. Requests that follow each other at once do not show waits for an RCU grace period.
void Rest(int milliseconds);

}  // namespace atl::bench
