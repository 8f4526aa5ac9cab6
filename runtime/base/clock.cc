#include "runtime/base/clock.h"

#include <time.h>

namespace atl {
namespace {

int64_t Micros(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
}

class RealClock final : public Clock {
 public:
  int64_t UnixMillis() const override { return Micros(CLOCK_REALTIME) / 1000; }
  int64_t BootMicros() const override { return Micros(CLOCK_BOOTTIME); }
};

}  // namespace

const Clock& SystemClock() {
  static const RealClock clock;
  return clock;
}

int64_t MonotonicMicros() {
  return Micros(CLOCK_MONOTONIC);
}

int64_t UnixMillis() {
  return Micros(CLOCK_REALTIME) / 1000;
}

int64_t UnixMicros() {
  return Micros(CLOCK_REALTIME);
}

}  // namespace atl
