// Counts of the kernel's events in sandboxes' cgroups (OOM kills, limits of processes), summed over
// all sandboxes that there are or were.
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
  // Reads the counts of the sandbox in a slot, since it began.
  using Read = std::function<cgroup::GroupEvents(uint32_t slot)>;
  // The registry outlives it.
  GroupCounts(Registry& registry, Read read) : registry_(registry), read_(std::move(read)) {
    registry_.OnRemove([this](const Sandbox& sandbox) { counts_.erase(&sandbox); });
  }
  GroupCounts(const GroupCounts&) = delete;
  GroupCounts& operator=(const GroupCounts&) = delete;

  // Those of ended sandboxes included, others as last read.
  cgroup::GroupEvents Sum() const;
  // The slots of sandboxes that have processes, by host id.
  std::unordered_map<std::string, uint32_t> Live() const;
  // Takes counts that the pool has read, by host id.
  void Set(const std::unordered_map<std::string, cgroup::GroupEvents>& read);
  // The sandbox's group is about to go: reads it for the last time.
  void Close(const Sandbox& sandbox);

 private:
  Registry& registry_;
  const Read read_;
  std::unordered_map<const Sandbox*, cgroup::GroupEvents> counts_;
  cgroup::GroupEvents ended_;
};

}  // namespace atl::sandbox
