// The tiers of a spawner for tests: namespaces, a tier that refuses everything, and a tier that
// builds sandboxes and refuses every other request about them.
#include <cstdlib>

#include "runtime/spawner/root/root_child.h"
#include "runtime/spawner/tier/namespace_tier.h"

namespace atl::spawner {
namespace {

// The spawner must never call a verb that the tier cannot do.
class RefusingTier : public Tier {
 public:
  std::string_view name() const override { return "refusing"; }
  bool Can(Verb) const override { return false; }
  Result<pid_t> Prepare(const SlotChildInput&, SlotChildReport*) const override { std::abort(); }
  RootReport Build(const wire::Plan&, const std::vector<int>&, const Slot&, int) const override {
    std::abort();
  }
  Status Limit(uint32_t, int, pid_t, const cgroup::Limits&, const cgroup::Limits&) const override {
    std::abort();
  }
  Status Freeze(uint32_t, bool) override { std::abort(); }
  Status MakeSession(uint32_t, int, pid_t, const wire::MakeSession&) const override {
    std::abort();
  }
};

class BareTier : public NamespaceTier {
 public:
  using NamespaceTier::NamespaceTier;
  std::string_view name() const override { return "bare"; }
  bool Can(Verb verb) const override { return verb == Verb::kPrepare || verb == Verb::kBuild; }
  Status Limit(uint32_t, int, pid_t, const cgroup::Limits&, const cgroup::Limits&) const override {
    std::abort();
  }
  Status Freeze(uint32_t, bool) override { std::abort(); }
  Status MakeSession(uint32_t, int, pid_t, const wire::MakeSession&) const override {
    std::abort();
  }
};

}  // namespace

std::vector<std::unique_ptr<Tier>> MakeTiers(const Host& host) {
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(std::make_unique<NamespaceTier>(host));
  tiers.push_back(std::make_unique<RefusingTier>());
  tiers.push_back(std::make_unique<BareTier>(host));
  return tiers;
}

}  // namespace atl::spawner
