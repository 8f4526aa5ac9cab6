// The tier of gVisor: a kernel in user space, runsc's sentry, serves the system calls of the
// sandbox. In the place of execd the slot has atoll-guard, which starts runsc when the root is
// there (runtime/guard).
//
// runsc makes user and mount namespaces, traces processes and loads filters of its own, which the
// walls of the namespace tier forbid. So a slot of this tier has no filter of ours, an unmasked
// /proc, and a user namespace that is not sealed, with all capabilities in it. The user namespace
// owns the slot's network and mount namespaces. What stands between the sandbox and the host are
// gVisor, and then the slot: ids that are nobody's, cgroup, network policy, and a tree without a
// mount of the host.
#pragma once

#include "runtime/spawner/tier/guarded_tier.h"

namespace atl::spawner {

class GvisorTier : public GuardedTier {
 public:
  // `host` is borrowed and outlives it.
  explicit GvisorTier(const Host& host);

 private:
  bool HasWall() const override;
};

}  // namespace atl::spawner
