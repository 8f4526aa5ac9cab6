#include "bench/clock.h"

#include <poll.h>

#include "runtime/base/clock.h"

namespace atl::bench {

int64_t NowMicros() {
  return SystemClock().BootMicros();
}

void Rest(int milliseconds) {
  ::poll(nullptr, 0, milliseconds);
}

}  // namespace atl::bench
