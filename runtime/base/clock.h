// Time, injectable: tests move a FakeClock instead of sleeping.
#pragma once

#include <cstdint>

namespace atl {

// Thread rule: const, callable from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since the Unix epoch, for users and storage. May jump.
  virtual int64_t UnixMillis() const = 0;
  // Microseconds of CLOCK_BOOTTIME, for durations and deadlines. Never jumps; counts while
  // suspended.
  virtual int64_t BootMicros() const = 0;
};

// The system's clock; a static object without state.
const Clock& SystemClock();

// The system's times for code that needs no injected clock. Microseconds of CLOCK_MONOTONIC:
int64_t MonotonicMicros();
// Time since the Unix epoch.
int64_t UnixMillis();
int64_t UnixMicros();

}  // namespace atl
