// Time, injectable: tests move a FakeClock instead of sleeping.
#pragma once

#include <cstdint>

namespace atl {

// Thread rule: const, callable from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since the Unix epoch: what users see and what is stored. May jump.
  virtual int64_t UnixMillis() const = 0;
  // Microseconds of CLOCK_BOOTTIME: for durations and deadlines. Never jumps, counts suspend.
  virtual int64_t BootMicros() const = 0;
};

// The system's clock; a static object without state.
const Clock& SystemClock();

// For those who need no other clock. Microseconds of CLOCK_MONOTONIC:
int64_t MonotonicMicros();
// Since the Unix epoch.
int64_t UnixMillis();
int64_t UnixMicros();

}  // namespace atl
