// The groups of what serves buckets, by name: all that is kept of one beyond its spawner. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace atl::spawner {

// The slot, and the index among the sandbox's volumes.
using ObjectKey = std::pair<uint32_t, uint32_t>;

std::string ObjectGroup(const ObjectKey& key);  // "m<slot>-<index>"
// None: it is no such group.
std::optional<ObjectKey> ParseObjectGroup(const std::string& name);

}  // namespace atl::spawner
