// Disk use of sandboxes and snapshots, as the server measures it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {

struct DiskUse {
  uint64_t bytes = 0;
  bool complete = true;  // false: the server stopped at its limit; there is more

  std::string Text() const;  // "1.2 GiB", "over 1.2 GiB"
};

// `path` is "/sandboxes/ID" or "/snapshots/ID". Returns an error if the server cannot measure it,
// for instance because the sandbox has ended.
Result<DiskUse> MeasureDisk(Api& api, const std::string& path);

}  // namespace atl::cli
