// The tiers of atoll-spawner, in a file of their own, so that a test can link others in its place.
#include "runtime/spawner/tier/gvisor_tier.h"
#include "runtime/spawner/tier/microvm_tier.h"
#include "runtime/spawner/tier/namespace_tier.h"

namespace atl::spawner {

std::vector<std::unique_ptr<Tier>> MakeTiers(const Host& host) {
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(std::make_unique<NamespaceTier>(host));
  tiers.push_back(std::make_unique<GvisorTier>(host));
  tiers.push_back(std::make_unique<MicrovmTier>(host));
  return tiers;
}

}  // namespace atl::spawner
