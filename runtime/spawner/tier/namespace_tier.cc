#include "runtime/spawner/tier/namespace_tier.h"

#include "runtime/spawner/host/host.h"
#include "runtime/spawner/root/parked_limits.h"
#include "runtime/spawner/root/root_child.h"
#include "runtime/spawner/sessions/session_builder.h"
#include "runtime/spawner/slot/slot_child.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/tier.h"

namespace atl::spawner {

std::string_view NamespaceTier::name() const {
  return wire::kNamespaceTier;
}

Result<pid_t> NamespaceTier::Prepare(const SlotChildInput& input, SlotChildReport* report) const {
  return StartSlotChild(input, kExecdProgram, report);
}

RootReport NamespaceTier::Build(const wire::Plan& plan, const std::vector<int>& buckets,
                                const Slot& slot, int first) const {
  if (plan.volumes.empty() && plan.devices.empty()) {
    return MountRoot(host_, plan, slot, first, kRootOverExecd);
  }
  return MountRootHere(host_, plan, buckets, slot, first, kRootOverExecd);
}

Status NamespaceTier::Limit(uint32_t slot, int first, pid_t pid, const cgroup::Limits& now,
                            const cgroup::Limits& next) const {
  return LimitParked({first, pid, host_.IdBase(slot)}, now, next);
}

Status NamespaceTier::Freeze(uint32_t slot, bool frozen) {
  return host_.cgroups.Freeze(SlotGroup(slot), frozen);
}

Status NamespaceTier::MakeSession(uint32_t slot, int first, pid_t pid,
                                  const wire::MakeSession& message) const {
  return BuildSession(host_, slot, first, pid, message);
}

}  // namespace atl::spawner
