// Sums the kernel's event counts of sandboxes' cgroups (OOM kills, refused forks) over all present
// and past sandboxes.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "cgroup/meters.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/wire/reply.h"

namespace atl::sandbox {

class GroupCounts {
 public:
  // `registry` outlives this object.
  explicit GroupCounts(Registry& registry) : registry_(registry) {
    registry_.OnRemove([this](const Sandbox& sandbox) { counts_.erase(&sandbox); });
  }
  GroupCounts(const GroupCounts&) = delete;
  GroupCounts& operator=(const GroupCounts&) = delete;

  // Returns the sum: final counts of ended sandboxes, and the last read counts of the others.
  cgroup::GroupEvents Sum() const;
  // Returns the slots of sandboxes that have processes, by host id.
  std::unordered_map<std::string, uint32_t> Live() const;
  // Stores counts that the pool has read, by host id.
  void Set(const std::unordered_map<std::string, cgroup::GroupEvents>& read);
  // Call when the sandbox is destroyed. Its last counts are those of `end`, or if the spawner could
  // not read them, the last ones that the pool has read.
  void Close(const Sandbox& sandbox, const wire::EndReading& end);

 private:
  Registry& registry_;
  std::unordered_map<const Sandbox*, cgroup::GroupEvents> counts_;
  cgroup::GroupEvents ended_;
};

}  // namespace atl::sandbox
