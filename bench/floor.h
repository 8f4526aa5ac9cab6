// What a sandbox costs at least: the same isolation as Atoll's, made by bare system calls, and
// nothing else. No request is parsed, no process keeps watch, nothing is recorded; a busybox shell
// that says hi is process 1.
//
// User, process, mount, ipc, host name, cgroup and network namespace; an overlay on an id-mapped
// store, with its upper on the file system of the directory; proc, sysfs, /dev with devpts, shm and
// mqueue; cgroups with Atoll's usual limits; a link with addresses, routes and its elements in the
// ruleset; no capability but the usual ones, and Atoll's own filter.
//
// Thread rule: one caller at a time; the work is done on a thread of the floor's own, in a network
// namespace that takes the host's place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"

namespace atl::bench {

struct FloorMicros {
  int64_t slot = 0;   // what Atoll makes ahead of time: network, cgroups, user namespaces
  int64_t first = 0;  // from there to the first byte of output
};

class Floor {
 public:
  // `directory` is made, or was by an earlier one; its owner removes it. As root.
  static Result<std::unique_ptr<Floor>> Open(const std::string& directory);
  virtual ~Floor() = default;
  // From nothing to output, and back to nothing.
  virtual Result<FloorMicros> Live() = 0;
};

}  // namespace atl::bench
