// Runs the real atoll-unpack as the spawner does: fresh namespaces, ids 0 to 65535 mapped to a
// range of their own, three descriptors.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::images {

inline constexpr unsigned kLayerIdBase = 0x70000000;

struct UnpackRun {
  std::string mode;                 // "split" or "layer"
  int input = -1;                   // borrowed
  int output = -1;                  // borrowed
  std::vector<std::string> limits;  // "max_bytes=…"
  const char* program = nullptr;    // null: $ATOLL_UNPACK
  // Mistakes that a careless spawner might make.
  bool own_user_namespace = true;
  bool no_new_privs = true;
};
struct UnpackOutcome {
  int wait_status = 0;
  std::string report;
};
Result<UnpackOutcome> RunUnpack(const UnpackRun& run);

}  // namespace atl::images
