// While all runs: what the records say, what the spawner holds and what the kernel has should never
// differ. What does is a fault, is said so, and is mended as after a restart.
#include <utility>

#include "runtime/base/log.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kCompareTickUs = 2 * 1000 * 1000;
// Compared each 30 s; and at once when so many have been removed and it has become quiet.
constexpr int kTicksBetween = 15;
constexpr uint64_t kBurst = 100;
constexpr int kTicksForSpawner = 2;
// A removal is under way for milliseconds.
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

void Lifecycle::CompareLater() {
  compare_timer_ = loop_.After(kCompareTickUs, [this] {
    ++quiet_ticks_;
    pools_.Look();
    templates_.Look();
    if (ticks_without_spawner_ != 0) EndWithoutSpawner();
    const bool burst = removed_ - removed_compared_ >= kBurst && removed_ == removed_seen_;
    removed_seen_ = removed_;
    if (stopping_ || (quiet_ticks_ < kTicksBetween && !burst)) return CompareLater();
    removed_compared_ = removed_;
    spawner_.Ask(wire::Hello(), [this](const Result<wire::Greeting>& hello) {
      // Without a spawner: the next one's hello is compared.
      quiet_ticks_ = hello && Compare(*hello) ? kTicksBetween : 0;
      CompareLater();
    });
  });
}

void Lifecycle::EndWithoutSpawner() {
  // The next spawner is there in a moment as a rule, and may know exit codes.
  if (stopping_ || ++ticks_without_spawner_ <= kTicksForSpawner) return;
  std::vector<wire::SandboxRecord> ended;
  for (const auto& [id, entry] : entries_) {
    const Sandbox& sandbox = entry.sandbox;
    if (!IsLive(sandbox.state) || config_.has_processes(sandbox.slot).value_or(true)) {
      continue;
    }
    ended.push_back(
        {.id = HostId(sandbox), .slot = sandbox.slot, .exited = true, .code_known = false});
  }
  if (ended.empty()) return;
  for (const wire::SandboxRecord& record : ended) OnExit(record);
  health_.Set("sandboxes", std::to_string(ended.size()) +
                               " sandboxes have ended while there was no spawner: somebody has "
                               "killed them, or stopped the unit atoll-sandboxes");
}

bool Lifecycle::Compare(const wire::Greeting& hello) {
  // Answers come in order: what was asked and answered before is in it, and only what is under way
  // may differ.
  RecoveryPlan plan = PlanFor(hello);
  std::erase_if(plan.unfinished,
                [this](const std::string& id) { return Look(id)->releasing != 0; });
  std::erase_if(plan.orphans,
                [this](const wire::SandboxRecord& record) { return orphans_.contains(record.id); });
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
  const int64_t now_us = clock_.BootMicros();
  for (const auto& [id, entry] : entries_) {
    if (entry.releasing != 0 && now_us - entry.release_asked_us > kStuckUs) {
      ++count(Difference::kStuck);
    }
  }
  CarryOut(plan);
  const SlotPool::Wrong wrong = slots_.Mend(OwnedSlots(), hello.prepared_slots);
  count(Difference::kSlot) = wrong.slots;
  count(Difference::kLink) = wrong.links;
  for (size_t i = 0; i < found.size(); ++i) stats_.differences[i] += found[i];
  const std::string text = TextOf(found);
  health_.Set("sandboxes", text);
  return !text.empty();
}

}  // namespace atl::sandbox
