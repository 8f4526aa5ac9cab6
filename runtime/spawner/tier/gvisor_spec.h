// The configuration of runsc for one sandbox, in the form of the OCI runtime specification.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atl::spawner {

// A file or directory from outside. A mount of its own has shared access: runsc asks the host
// before each use. In the root it keeps what it has seen, and would miss what others write.
struct GvisorVolume {
  std::string source;  // path in the slot's tree, plain ASCII
  std::string target;  // path in the sandbox without links; UTF-8
  bool read_only = false;
};

struct GvisorSpec {
  std::string hostname;  // ValidHostname
  uint64_t capabilities = 0;
  uint64_t shm_bytes = 0;
  uint64_t nofile = 0;
  bool readonly_root = false;
  bool tmp = false;                   // the root has a directory /tmp
  std::vector<GvisorVolume> volumes;  // a parent before what is mounted in it
};

// Returns config.json. Paths are those of wire/guard.h; the root is at /root.
std::string GvisorSpecText(const GvisorSpec& spec);

}  // namespace atl::spawner
