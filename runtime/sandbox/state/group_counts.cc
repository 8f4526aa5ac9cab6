#include "runtime/sandbox/state/group_counts.h"

namespace atl::sandbox {

cgroup::GroupEvents GroupCounts::Sum() const {
  cgroup::GroupEvents sum = ended_;
  for (const auto& [sandbox, events] : counts_) sum += events;
  return sum;
}

std::unordered_map<std::string, uint32_t> GroupCounts::Live() const {
  std::unordered_map<std::string, uint32_t> live;
  for (const auto& [id, sandbox] : registry_) {
    if (IsLive(sandbox.state) && sandbox.slot != 0) live.emplace(HostId(sandbox), sandbox.slot);
  }
  return live;
}

void GroupCounts::Set(const std::unordered_map<std::string, cgroup::GroupEvents>& read) {
  for (const auto& [host_id, events] : read) {
    const Sandbox* const sandbox = registry_.ByHost(host_id);
    if (sandbox != nullptr && IsLive(sandbox->state)) counts_[sandbox] = events;
  }
}

void GroupCounts::Close(const Sandbox& sandbox, const wire::EndReading& end) {
  if (end.read) {
    ended_ += end.meters.events;
  } else if (const auto found = counts_.find(&sandbox); found != counts_.end()) {
    ended_ += found->second;
  }
  counts_.erase(&sandbox);
}

}  // namespace atl::sandbox
