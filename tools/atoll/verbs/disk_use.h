// Disk use of sandboxes and snapshots, as the server measures it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {

struct DiskUse {
  uint64_t bytes = 0;
  bool complete = true;  // false: there is more, the server's count met a bound

  std::string Text() const;  // "1.2 GiB", "over 1.2 GiB"
};

// `path` names the object: "/sandboxes/ID", "/snapshots/ID". A server that cannot tell, because the
// sandbox has ended for instance, is an error.
Result<DiskUse> MeasureDisk(Api& api, const std::string& path);

}  // namespace atl::cli
