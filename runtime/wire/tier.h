// Names of tiers, which are the kinds of isolation that a spawner can build around a sandbox.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace atl::wire {

// The tier of namespaces, seccomp and a user namespace. Messages and records without a tier mean
// it.
inline constexpr std::string_view kNamespaceTier = "namespace";
inline constexpr size_t kMaxTiers = 16;

// Accepts 1 to 32 characters of [a-z0-9-].
bool ValidTierName(std::string_view name);

}  // namespace atl::wire
