// Sums the kernel's event counts of sandboxes' cgroups (OOM kills, refused forks) over all present
// and past sandboxes.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "cgroup/tree.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/registry.h"

namespace atl::sandbox {

class GroupCounts {
 public:
  // Reads the counts of a slot's sandbox since it began.
  using Read = std::function<cgroup::GroupEvents(uint32_t slot)>;
  // `registry` outlives this object.
  GroupCounts(Registry& registry, Read read) : registry_(registry), read_(std::move(read)) {
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
  // Reads the counts for the last time. Call before the sandbox's cgroup is removed.
  void Close(const Sandbox& sandbox);

 private:
  Registry& registry_;
  const Read read_;
  std::unordered_map<const Sandbox*, cgroup::GroupEvents> counts_;
  cgroup::GroupEvents ended_;
};

}  // namespace atl::sandbox
