// The counters of one sandbox's group: what the kernel has counted since the group was created, and
// the memory that it uses now. Bills and metrics are made of them.
//
// Thread rule: stateless, from any thread. Needs no privilege.
#pragma once

#include <cstdint>
#include <string>

#include "cgroup/host.h"
#include "runtime/base/result.h"

namespace atl::cgroup {

// Events that the kernel has counted for a sandbox's group since the group was created.
struct GroupEvents {
  uint64_t oom_kills = 0;
  uint64_t pids_hits = 0;  // forks refused by the limit of processes

  GroupEvents& operator+=(const GroupEvents& other) {
    oom_kills += other.oom_kills;
    pids_hits += other.pids_hits;
    return *this;
  }
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.oom_kills, self.pids_hits);
  }
};

struct Meters {
  uint64_t cpu_micros = 0;
  // Anonymous pages, tmpfs and kernel memory. Pages of files do not count: the kernel charges a
  // page of a shared layer to the group that happens to read it first.
  uint64_t memory_bytes = 0;
  uint64_t peak_memory_bytes = 0;  // largest charge since the group exists, pages of files included
  uint64_t read_bytes = 0;         // block devices only
  uint64_t written_bytes = 0;      // v1 does not count what the page cache writes later
  GroupEvents events;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.cpu_micros, self.memory_bytes, self.peak_memory_bytes);
    io(self.read_bytes, self.written_bytes, self.events);
  }
};

// `path`: the directory of the daemon's group in the v2 hierarchy. `group`: a group in it.
// kNotFound: the group is gone. Any other error: the kernel's files cannot be read or understood.
// Counters that this kernel or host does not keep are 0.
Result<Meters> ReadMeters(const Host& host, const std::string& path, const std::string& group);
// Reads Meters::memory_bytes alone.
Result<uint64_t> ReadMemoryInUse(const Host& host, const std::string& path,
                                 const std::string& group);
// Reads Meters::events alone.
Result<GroupEvents> EventsOf(const Host& host, const std::string& path, const std::string& group);

}  // namespace atl::cgroup
