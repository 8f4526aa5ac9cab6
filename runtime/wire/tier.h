// Names of tiers: the ways in which a spawner can build the wall around a sandbox.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace atl::wire {

// Namespaces, seccomp and a user namespace. The tier of every message and record that names none.
inline constexpr std::string_view kNamespaceTier = "namespace";
inline constexpr size_t kMaxTiers = 16;

// 1 to 32 bytes of [a-z0-9-].
bool ValidTierName(std::string_view name);

}  // namespace atl::wire
