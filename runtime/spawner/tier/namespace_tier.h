// The tier of namespaces: execd is the slot's first process, and the wall is the kernel's own
// namespaces, a user namespace, seccomp and capabilities (slot/, root/, sessions/).
#pragma once

#include "runtime/spawner/host/tier.h"

namespace atl::spawner {

class NamespaceTier : public Tier {
 public:
  // `host` is borrowed and outlives it.
  explicit NamespaceTier(const Host& host) : host_(host) {}

  std::string_view name() const override;
  bool Can(Verb) const override { return true; }
  Result<pid_t> Prepare(const SlotChildInput& input, SlotChildReport* report) const override;
  RootReport Build(const wire::Plan& plan, const std::vector<int>& buckets, const Slot& slot,
                   int first) const override;
  Status Limit(uint32_t slot, int first, pid_t pid, const cgroup::Limits& now,
               const cgroup::Limits& next) const override;
  Status Freeze(uint32_t slot, bool frozen) override;
  Status MakeSession(uint32_t slot, int first, pid_t pid,
                     const wire::MakeSession& message) const override;

 private:
  const Host& host_;
};

}  // namespace atl::spawner
