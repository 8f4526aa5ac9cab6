// What the memory of paused sandboxes is put on: an encrypted file, or compressed memory. Never a
// disk that could be read afterwards.
//
// All of it is made for one activation and gone with it. What names it stands in a record in the
// run directory before there is more than a name, so that whoever comes after a death takes it down
// or goes on with it.
//
// Thread rule: one caller at a time; all calls may take long. As root.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

// What this host can have of that. kUnavailable: nothing, and what to do.
Result<SwapKind> AvailableSwap(SwapKind wanted);

struct SwapPlace {
  std::string data_dir;  // where a file would be
  std::string run_dir;
  uint32_t instance = 0;
  uint64_t bytes = 0;
  SwapKind kind = SwapKind::kAuto;
};

// Whether there is one that the kernel swaps to, and how full it is. Cheap.
struct SwapUse {
  bool on = false;
  uint64_t bytes = 0;
  uint64_t used_bytes = 0;
};
Result<SwapUse> ReadSwapUse(const std::string& run_dir);
// Whether anything of the below has been called for this run directory, with whatever outcome.
bool WasSwapTurned(const std::string& run_dir);

// Makes it and has the kernel swap to it, before any other swap area of the host. What an earlier
// one has left half made is taken down; one that is on stays.
Status TurnSwapOn(const SwapPlace& place);
// Brings back to memory what is there, and removes all of it; nothing to do is not an error.
// ENOMEM: there is no room in memory, and it stays on.
Status TurnSwapOff(const SwapPlace& place);

}  // namespace atl::spawner
