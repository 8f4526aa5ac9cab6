#include "runtime/sandbox/recovery/recovery.h"

#include <unordered_set>

namespace atl::sandbox {

RecoveryPlan PlanRecovery(const std::vector<const Sandbox*>& recorded,
                          const wire::Greeting& hello) {
  RecoveryPlan plan;
  std::unordered_map<std::string, const wire::SandboxRecord*> present;
  for (const wire::SandboxRecord& record : hello.sandboxes) {
    present.emplace(record.id, &record);
    if (record.slot != 0) plan.live_slots.push_back(record.slot);
  }
  const std::unordered_set<uint32_t> frozen(hello.frozen_slots.begin(), hello.frozen_slots.end());
  std::unordered_set<std::string> known;
  for (const Sandbox* sandbox : recorded) {
    known.insert(HostId(*sandbox));
    const auto found = present.find(HostId(*sandbox));
    switch (sandbox->state) {
      case State::kAcquiring:
      case State::kAwaiting:
      case State::kQueued:
      case State::kBuilding:
      case State::kCancelled:
      case State::kGone:
        // A sandbox that waits for its turn holds nothing and continues. For one with a slot, the
        // answer to its build will come, if only to say that the build was interrupted, and the
        // machine does the rest.
        break;
      case State::kReplacing:
        // This daemon has built the new version. A version that the next daemon builds is absent
        // until its turn.
        if (found == present.end()) {
          if (sandbox->slot != 0) plan.vanished.push_back(sandbox->id);
        } else if (found->second->exited) {
          plan.exited.push_back(*found->second);
        }
        break;
      case State::kRunning:
      case State::kPausing:
      case State::kPaused:
      case State::kResuming:
        if (found == present.end()) {
          plan.vanished.push_back(sandbox->id);
        } else if (found->second->exited) {
          plan.exited.push_back(*found->second);
        } else {
          plan.adopted.push_back(sandbox->id);
          const bool still = frozen.contains(sandbox->slot);
          if (sandbox->state == State::kRunning && still) plan.frozen.push_back(sandbox->id);
          if (sandbox->state == State::kPaused && !still) plan.thawed.push_back(sandbox->id);
        }
        break;
      case State::kStopping:
      case State::kEnding:
      case State::kFailing:
        plan.unfinished.push_back(sandbox->id);
        break;
      case State::kTerminated:
      case State::kFailed:
        if (found != present.end()) plan.unfinished.push_back(sandbox->id);
        break;
    }
  }
  for (const wire::SandboxRecord& record : hello.sandboxes) {
    if (!known.contains(record.id)) plan.orphans.push_back(record);
  }
  return plan;
}

}  // namespace atl::sandbox
