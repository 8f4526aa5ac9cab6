// Bounds of the swap area for paused sandboxes, used by the configurations of the daemon and the
// spawner.
#pragma once

#include <cstdint>

namespace atl::wire {

inline constexpr uint64_t kLeastSwapBytes = 1 << 20;
// A swap header counts pages of 4 KiB in 32 bits.
inline constexpr uint64_t kMostSwapBytes = uint64_t{8} << 40;

constexpr bool IsSwapSize(uint64_t bytes) {
  return bytes >= kLeastSwapBytes && bytes <= kMostSwapBytes && bytes % 4096 == 0;
}

}  // namespace atl::wire
