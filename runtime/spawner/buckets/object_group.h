// Names of the cgroups of bucket servers. The name is all that outlives the spawner. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace atl::spawner {

// The slot, and the index among the sandbox's volumes.
using ObjectKey = std::pair<uint32_t, uint32_t>;

std::string ObjectGroup(const ObjectKey& key);  // "m<slot>-<index>"
// Returns nothing if `name` is not the name of such a cgroup.
std::optional<ObjectKey> ParseObjectGroup(const std::string& name);

}  // namespace atl::spawner
