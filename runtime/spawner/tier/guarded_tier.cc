#include "runtime/spawner/tier/guarded_tier.h"

#include <string>

#include "runtime/spawner/host/host.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/tier.h"

namespace atl::spawner {

bool GuardedTier::Can(Verb verb) const {
  switch (verb) {
    case Verb::kPrepare:
      return HasWall();
    case Verb::kBuild:
    case Verb::kDiff:
      return true;
    case Verb::kFreeze:
    case Verb::kReclaim:
    case Verb::kCopy:
      return wire::CanStandStill(name_);
    case Verb::kLimit:
    case Verb::kSession:
      return false;
  }
  return false;
}

Result<pid_t> GuardedTier::Prepare(const SlotChildInput& input, SlotChildReport* report) const {
  ATOLL_ASSIGN(const UniqueFd network, MakeNetworkNamespace(input.user_namespace));
  SlotChildInput with = input;
  with.network_namespace = network.get();
  return StartSlotChild(with, program_, report);
}

RootReport GuardedTier::Build(const wire::Plan& plan, const std::vector<int>& buckets,
                              const Slot& slot, int first) const {
  if (plan.volumes.empty()) return MountRoot(host_, plan, slot, first, root_);
  return MountRootHere(host_, plan, buckets, slot, first, root_);
}

Status GuardedTier::Cannot(const std::string& what) const {
  return Fail(Code::kUnimplemented, std::string(name_) + ": " + what);
}

Status GuardedTier::Limit(uint32_t, int, pid_t, const cgroup::Limits&,
                          const cgroup::Limits&) const {
  return Cannot("the limits of a sandbox are fixed");
}

Status GuardedTier::Freeze(uint32_t, bool) {
  return Cannot("a sandbox cannot be paused");
}

Status GuardedTier::MakeSession(uint32_t, int, pid_t, const wire::MakeSession&) const {
  return Cannot("no isolated sessions");
}

}  // namespace atl::spawner
