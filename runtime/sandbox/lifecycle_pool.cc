// Creates of a pool. What the request leaves out the pool says; then it is a create like any other,
// which claims a member if one is what was asked for, and is built if none is.
#include <unordered_map>
#include <utility>

#include "cgroup/limits_text.h"
#include "images/image_store.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {

void Lifecycle::MakeOfPool(const Wanted& wanted, const SharedAttempt& attempt) {
  auto filled = FillFromPool(wanted);
  if (!filled) {
    CreateError refused(std::move(filled).error());
    refused.pool = true;
    return attempt->Fail(refused);
  }
  Make(*filled, attempt);
}

Result<Wanted> Lifecycle::FillFromPool(const Wanted& wanted) const {
  const std::string& name = wanted.spec.extensions.at(kPoolRef);
  ATOLL_TRY(pools_.CheckRoom(name));
  const PoolRecord& pool = *pools_.RecordOf(name);
  Wanted filled = wanted;
  if (!wanted.spec.image.empty()) {
    ATOLL_ASSIGN(const std::string image, images::NormaliseImageName(wanted.spec.image));
    if (image != pool.image) {
      return Fail(Code::kInvalidArgument, "pool '" + name + "' is of image " + pool.image +
                                              ", and not of " + image +
                                              "; leave out image, or poolRef");
    }
  }
  filled.spec.image = pool.image;
  if (filled.resource_limits.empty()) filled.resource_limits = pool.resource_limits;
  return filled;
}

std::unique_ptr<ParkedSandbox> Lifecycle::Claim(Checked& checked, const Wanted& wanted) {
  Sandbox& s = checked.sandbox;
  // Of an image that is on its way nothing waits; what a template keeps is built for it.
  if (!checked.awaited_image.empty() || s.stocked) return nullptr;
  const auto ref = s.spec.extensions.find(kPoolRef);
  std::unique_ptr<ParkedSandbox> parked;
  if (ref != s.spec.extensions.end()) {
    parked = pools_.Take(ref->second, s);
  } else if (s.spec.snapshot_id.empty()) {
    parked = pools_.TakeAutomatic(s, wanted.resource_limits);
  }
  // Its cgroup, its socket and its host name have that id already.
  if (parked) s.id = s.spec.network.sandbox = parked->sandbox.id;
  return parked;
}

Result<Sandbox> Lifecycle::NewMember(const PoolRecord& pool) const {
  Sandbox member;
  ATOLL_ASSIGN(images::Image image, images_.Find(pool.image));
  ATOLL_TRY(UseImage(member, std::move(image)));
  ATOLL_ASSIGN(member.spec.limits, cgroup::ParseLimits(pool.resource_limits, config_.defaults,
                                                       config_.limits_available));
  return member;
}

Status Lifecycle::CheckRoom(const Held& stock, const Spec& member) const {
  Held all = held_;
  all.Add(stock);
  all.Add(templates_.stock());
  return CheckBudget(config_.budget, all, member);
}

void Lifecycle::Dispose(const std::string& id, uint32_t slot) {
  wire::SandboxRecord record;
  record.id = id;
  record.slot = slot;
  DestroyOrphan(record);
}

Lifecycle::LostMembers Lifecycle::CompareMembers(const wire::Greeting& hello, RecoveryPlan& plan) {
  LostMembers lost;
  std::erase_if(plan.orphans,
                [this](const wire::SandboxRecord& record) { return pools_.Knows(record.id); });
  std::unordered_map<std::string, bool> exited;
  for (const wire::SandboxRecord& record : hello.sandboxes) exited[record.id] = record.exited;
  for (const std::string& id : pools_.Parked()) {
    const auto found = exited.find(id);
    if (found != exited.end() && !found->second) continue;
    found == exited.end() ? ++lost.vanished : ++lost.exited;
    pools_.Lost(id);
  }
  return lost;
}

}  // namespace atl::sandbox
