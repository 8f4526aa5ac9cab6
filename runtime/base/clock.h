// Time, injectable: tests move a FakeClock instead of sleeping.
#pragma once

#include <cstdint>

namespace atl {

// One moment on both clocks, for times that outlive a step of the wall clock: the boot clock says
// how long something took, the wall clock when it was.
struct Instant {
  int64_t unix_ms = 0;
  int64_t boot_ms = 0;
  // Offset of the wall clock to the boot clock. It changes when the wall clock is stepped.
  int64_t offset_ms() const { return unix_ms - boot_ms; }
};

// Thread rule: const, callable from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since the Unix epoch, for users and storage. May jump.
  virtual int64_t UnixMillis() const = 0;
  // Microseconds of CLOCK_BOOTTIME, for durations and deadlines. Never jumps; counts while
  // suspended.
  virtual int64_t BootMicros() const = 0;
  Instant Now() const { return {UnixMillis(), BootMicros() / 1000}; }
};

// The system's clock; a static object without state.
const Clock& SystemClock();

// The system's times for code that needs no injected clock. Microseconds of CLOCK_MONOTONIC:
int64_t MonotonicMicros();
// Time since the Unix epoch.
int64_t UnixMillis();
int64_t UnixMicros();

}  // namespace atl
