// The common part of tiers with a guard in execd's place. The slot gets a network namespace that
// belongs to its user namespace, so that the guard may change it. The wall has the limits with
// which it was started, and the spawner cannot enter it.
#pragma once

#include <span>

#include "runtime/spawner/host/tier.h"
#include "runtime/spawner/root/root_child.h"
#include "runtime/spawner/slot/slot_child.h"

namespace atl::spawner {

class GuardedTier : public Tier {
 public:
  std::string_view name() const override { return name_; }
  bool Can(Verb verb) const override;
  Result<pid_t> Prepare(const SlotChildInput& input, SlotChildReport* report) const override;
  RootReport Build(const wire::Plan& plan, const std::vector<int>& buckets, const Slot& slot,
                   int first) const override;
  // Not called, as MakeSession, and Freeze if sandboxes of the tier cannot stand still: see Can.
  Status Limit(uint32_t slot, int first, pid_t pid, const cgroup::Limits& now,
               const cgroup::Limits& next) const override;
  Status Freeze(uint32_t slot, bool frozen) override;
  Status MakeSession(uint32_t slot, int first, pid_t pid,
                     const wire::MakeSession& message) const override;

 protected:
  // `host` is borrowed and outlives it. `name` is of wire/tier.h. `program` leads to the guard, and
  // `root` builds what it starts; both are constants.
  GuardedTier(const Host& host, std::string_view name, const SlotProgram& program,
              std::span<const RootStep> root)
      : host_(host), name_(name), program_(program), root_(root) {}

  const Host& host_;

 private:
  // Returns true if this host has what the wall needs.
  virtual bool HasWall() const = 0;
  Status Cannot(const std::string& what) const;

  const std::string_view name_;
  const SlotProgram& program_;
  const std::span<const RootStep> root_;
};

}  // namespace atl::spawner
