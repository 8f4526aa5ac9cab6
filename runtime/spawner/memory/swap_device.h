// The device that the memory of paused sandboxes is swapped to: an encrypted file, or compressed
// memory. Never a disk that could be read afterwards.
//
// Everything is made for one activation and removed with it. A record in the run directory names it
// before it is made, so that after a death the next spawner takes it down or goes on with it.
//
// Thread rule: one caller at a time; all calls may take long. As root.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

// Returns which kind this host can have. kUnavailable: none; the message says what to do.
Result<SwapKind> AvailableSwap(SwapKind wanted);

struct SwapPlace {
  std::string data_dir;  // directory of the swap file
  std::string run_dir;
  uint32_t instance = 0;
  uint64_t bytes = 0;
  SwapKind kind = SwapKind::kAuto;
};

// Whether the kernel swaps to such a device, and how full it is. Cheap.
struct SwapUse {
  bool on = false;
  uint64_t bytes = 0;
  uint64_t used_bytes = 0;
};
Result<SwapUse> ReadSwapUse(const std::string& run_dir);
// Returns whether any function below has been called for this run directory, with whatever outcome.
bool WasSwapTurned(const std::string& run_dir);

// Makes the device and has the kernel swap to it, before any other swap area of the host. Takes
// down what an earlier call has left half made; an area that is on stays.
Status TurnSwapOn(const SwapPlace& place);
// Brings the swapped memory back and removes the device. Nothing to do is not an error. ENOMEM:
// there is no room in memory, and the area stays on.
Status TurnSwapOff(const SwapPlace& place);

}  // namespace atl::spawner
