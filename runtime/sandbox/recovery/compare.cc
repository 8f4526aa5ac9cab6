// Compares records, spawner and kernel while the daemon runs. They should never differ. A
// difference is a fault: the daemon logs it and repairs it like after a restart.
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/recovery/reconciler.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kCompareTickUs = 2 * 1000 * 1000;
// The daemon compares every 30 s, and also at once when kBurst sandboxes have been removed and it
// has become quiet.
constexpr int kTicksBetween = 15;
constexpr uint64_t kBurst = 100;
constexpr int kTicksForSpawner = 2;
// A removal normally takes milliseconds.
constexpr int64_t kStuckUs = 60 * 1000 * 1000;

constexpr std::string_view kNames[kDifferences] = {"orphan", "vanished", "missed_exit", "forgotten",
                                                   "stuck",  "freeze",   "slot",        "link",
                                                   "stray",  "loose"};
constexpr std::string_view kTexts[kDifferences] = {
    "sandboxes ran without a record",
    "sandboxes had a record only",
    "sandboxes had ended unnoticed",
    "removals were under way no more",
    "sandboxes cannot be removed (the log says why)",
    "sandboxes stood still that should run, or ran that should stand still",
    "slots were nobody's",
    "links were nobody's",
    "slots had groups or files and no sandbox",
    "sandboxes were out of their cgroups, without limits, and are ended"};

std::string TextOf(const std::array<uint64_t, kDifferences>& found) {
  std::string text;
  for (int i = 0; i < kDifferences; ++i) {
    if (found[static_cast<size_t>(i)] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(found[static_cast<size_t>(i)]) + " " +
            std::string(kTexts[i]);
  }
  return text.empty() ? text : "records and host differed, and are being mended: " + text;
}

}  // namespace

std::string_view DifferenceName(int difference) {
  return kNames[difference];
}

void Reconciler::CompareLater() {
  compare_timer_ = parts_.loop.After(kCompareTickUs, [this] {
    ++quiet_ticks_;
    parts_.pools.Look();
    parts_.templates.Look();
    if (ticks_without_spawner_ != 0) EndWithoutSpawner();
    const bool burst = parts_.endings.removed() - removed_compared_ >= kBurst &&
                       parts_.endings.removed() == removed_seen_;
    removed_seen_ = parts_.endings.removed();
    if (parts_.attempts.stopping() || (quiet_ticks_ < kTicksBetween && !burst))
      return CompareLater();
    removed_compared_ = parts_.endings.removed();
    parts_.spawner.Ask(wire::Hello(), [this](const Result<wire::Greeting>& hello) {
      // Without a spawner, the next one's hello is compared.
      quiet_ticks_ = hello && Compare(*hello) ? kTicksBetween : 0;
      CompareLater();
    });
  });
}

void Reconciler::EndWithoutSpawner() {
  // The next spawner usually comes in a moment, and may know exit codes.
  if (parts_.attempts.stopping() || ++ticks_without_spawner_ <= kTicksForSpawner) return;
  std::vector<wire::SandboxRecord> ended;
  for (const auto& [id, sandbox] : parts_.registry) {
    if (!IsLive(sandbox.state) || has_processes_(sandbox.slot).value_or(true)) {
      continue;
    }
    ended.push_back(
        {.id = HostId(sandbox), .slot = sandbox.slot, .exited = true, .code_known = false});
  }
  if (ended.empty()) return;
  for (const wire::SandboxRecord& record : ended) OnExit(record);
  parts_.health.Set("sandboxes",
                    std::to_string(ended.size()) +
                        " sandboxes have ended while there was no spawner: somebody has "
                        "killed them, or stopped the unit atoll-sandboxes");
}

bool Reconciler::Compare(const wire::Greeting& hello) {
  // Answers come in order: the hello contains everything that was asked and answered before it, so
  // only work in flight may differ.
  RecoveryPlan plan = PlanFor(hello);
  std::erase_if(plan.unfinished, [this](const std::string& id) {
    return parts_.endings.IsReleasing(*parts_.registry.Look(id));
  });
  std::erase_if(plan.orphans, [this](const wire::SandboxRecord& record) {
    return parts_.orphans.Has(record.id);
  });
  const LostMembers lost = CompareMembers(hello, plan);
  std::array<uint64_t, kDifferences> found{};
  const auto count = [&found](Difference difference) -> uint64_t& {
    return found[static_cast<size_t>(difference)];
  };
  count(Difference::kOrphan) = plan.orphans.size();
  count(Difference::kVanished) = plan.vanished.size() + lost.vanished;
  count(Difference::kMissedExit) = plan.exited.size() + lost.exited;
  count(Difference::kForgotten) = plan.unfinished.size();
  count(Difference::kFreeze) = plan.frozen.size() + plan.thawed.size();
  count(Difference::kStray) = hello.stray_slots.size();
  count(Difference::kLoose) = hello.loose_slots.size();
  count(Difference::kStuck) = parts_.endings.CountReleasing(kStuckUs);
  CarryOut(plan);
  const SlotPool::Wrong wrong = parts_.slots.Mend(OwnedSlots(), hello.prepared_slots);
  count(Difference::kSlot) = wrong.slots;
  count(Difference::kLink) = wrong.links;
  for (size_t i = 0; i < found.size(); ++i) differences_[i] += found[i];
  const std::string text = TextOf(found);
  parts_.health.Set("sandboxes", text);
  return !text.empty();
}

Reconciler::LostMembers Reconciler::CompareMembers(const wire::Greeting& hello,
                                                   RecoveryPlan& plan) {
  LostMembers lost;
  std::erase_if(plan.orphans, [this](const wire::SandboxRecord& record) {
    return parts_.pools.Knows(record.id);
  });
  std::unordered_map<std::string, bool> exited;
  for (const wire::SandboxRecord& record : hello.sandboxes) exited[record.id] = record.exited;
  for (const std::string& id : parts_.pools.Parked()) {
    const auto found = exited.find(id);
    if (found != exited.end() && !found->second) continue;
    found == exited.end() ? ++lost.vanished : ++lost.exited;
    parts_.pools.Lost(id);
  }
  return lost;
}

}  // namespace atl::sandbox
