// The configuration of runsc for one sandbox, in the form of the OCI runtime specification.
#pragma once

#include <cstdint>
#include <string>

namespace atl::spawner {

struct GvisorSpec {
  std::string hostname;  // ValidHostname
  uint64_t capabilities = 0;
  uint64_t shm_bytes = 0;
  uint64_t nofile = 0;
  bool readonly_root = false;
  bool tmp = false;  // the root has a directory /tmp
};

// Returns config.json. Paths are those of wire/guard.h; the root is at /root.
std::string GvisorSpecText(const GvisorSpec& spec);

}  // namespace atl::spawner
