// The tier of virtual machines: the sandbox has a kernel of its own, behind QEMU. In the place of
// execd the slot has atoll-vm, which starts the machine when the root is there (runtime/guard).
//
// QEMU and the servers of files run in the slot: with its ids, cgroup and network, in a tree whose
// only part of the host is a read-only /usr, and in a user namespace in which nobody can make
// another namespace. QEMU is a user of the slot to whom nothing belongs, with a filter of its own.
#pragma once

#include <map>

#include "runtime/base/unique_fd.h"
#include "runtime/spawner/tier/guarded_tier.h"

namespace atl::spawner {

class MicrovmTier : public GuardedTier {
 public:
  // `host` is borrowed and outlives it.
  explicit MicrovmTier(const Host& host);

  RootReport Build(const wire::Plan& plan, const std::vector<int>& buckets, const Slot& slot,
                   int first) const override;
  Status Freeze(uint32_t slot, bool frozen) override;

 private:
  bool HasWall() const override;
  void EndSync(uint32_t slot);

  // The key is a slot, the value a pidfd of the process that lets the guest write what is dirty,
  // and freezes it then.
  std::map<uint32_t, UniqueFd> syncs_;
};

}  // namespace atl::spawner
