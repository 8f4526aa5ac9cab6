// The lower bound of a sandbox's cost: the same isolation as Atoll's, made by bare system calls and
// nothing else. It parses no request, supervises no process and records nothing. Process 1 is a
// busybox shell that prints "hi".
//
// The isolation consists of:
// - a user, process, mount, ipc, host name, cgroup and network namespace;
// - an overlay on an id-mapped store, with its upper on the file system of the directory;
// - proc, sysfs, /dev with devpts, shm and mqueue;
// - cgroups with Atoll's usual limits;
// - a link with addresses, routes and its elements in the ruleset;
// - no capability but the usual ones, and Atoll's own filter.
//
// Thread rule: one caller at a time. A thread of the Floor does the work, in a network namespace
// that stands for the host's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"

namespace atl::bench {

struct FloorMicros {
  int64_t slot = 0;   // time for what Atoll prepares ahead: network, cgroups, user namespaces
  int64_t first = 0;  // time from a ready slot to the first byte of output
};

class Floor {
 public:
  // Opens a floor in `directory`, which it creates or which an earlier floor has created. The
  // caller removes `directory`. Requires root.
  static Result<std::unique_ptr<Floor>> Open(const std::string& directory);
  virtual ~Floor() = default;
  // Makes one sandbox, waits for its output and removes everything again.
  virtual Result<FloorMicros> Live() = 0;
};

}  // namespace atl::bench
