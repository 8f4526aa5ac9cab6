#include "runtime/spawner/slots.h"

#include <charconv>
#include <string>
#include <vector>

#include "runtime/base/log.h"

namespace atl::spawner {

void Slots::Prepare(uint32_t slot, const wire::Limits& limits, Prepared done) {
  if (slot == 0 || slot > kMaxSlot) {
    return done(Fail(Code::kInvalidArgument, "slot " + std::to_string(slot) + ": out of range"));
  }
  if (pending_.count(slot) != 0 || prepared_.count(slot) != 0 || in_use_(slot)) {
    return done(Fail(Code::kAlreadyExists, "slot " + std::to_string(slot) + ": in use"));
  }
  // What a spawner that died left behind must not be inherited.
  const Status clean = Dismantle(slot);
  if (!clean) return done(Fail(clean.error()));
  auto build = StartSlotBuild(host_, slot, limits);
  if (!build) return done(Fail(std::move(build).error()));
  const int channel = build->channel.get();
  pending_[slot] = Pending{std::move(*build), limits, std::move(done)};
  const Status added = poller_.Add(channel, [this, slot] { Finish(slot); });
  if (!added) {
    Pending pending = std::move(pending_[slot]);
    pending_.erase(slot);
    pending.done(Fail(added.error()));
  }
}

void Slots::Finish(uint32_t slot) {
  const auto found = pending_.find(slot);
  if (found == pending_.end()) return;
  Pending pending = std::move(found->second);
  pending_.erase(found);
  poller_.Remove(pending.build.channel.get());
  auto built = ReceiveSlot(pending.build.channel.get(), pending.limits);
  if (!built) {
    [[maybe_unused]] const Status cleaned = Dismantle(slot);
    return pending.done(Fail(std::move(built).error()));
  }
  prepared_[slot] = std::move(built->slot);
  pending.done(std::move(built->rtnetlink));
}

Result<Slot> Slots::Take(uint32_t slot) {
  const auto found = prepared_.find(slot);
  if (found == prepared_.end()) {
    return Fail(Code::kFailedPrecondition, "slot " + std::to_string(slot) + ": not prepared");
  }
  Slot taken = std::move(found->second);
  prepared_.erase(found);
  return taken;
}

Status Slots::Drop(uint32_t slot) {
  ATOLL_ASSIGN(const Slot dropped, Take(slot));
  return Dismantle(slot);
}

void Slots::DropAll() {
  // A builder that is at work would make its group after we had looked.
  while (!pending_.empty()) Finish(pending_.begin()->first);
  std::vector<uint32_t> numbers;
  for (const auto& [slot, state] : prepared_) numbers.push_back(slot);
  for (uint32_t slot : numbers) {
    const Status dropped = Drop(slot);
    if (!dropped)
      LogLine(LogLevel::kError, "cannot drop slot").Add("slot", slot).Add(dropped.error());
  }
}

void Slots::DropStrays() {
  const auto groups = host_.cgroups.Groups();
  if (!groups) {
    LogLine(LogLevel::kError, "cannot list groups").Add(groups.error());
    return;
  }
  for (const std::string& group : *groups) {
    uint32_t slot = 0;
    const auto parsed = std::from_chars(group.data() + 1, group.data() + group.size(), slot);
    if (parsed.ec != std::errc() || SlotGroup(slot) != group || in_use_(slot)) continue;
    const Status dismantled = Dismantle(slot);
    if (!dismantled) {
      LogLine(LogLevel::kError, "cannot drop stray group")
          .Add("group", group)
          .Add(dismantled.error());
    }
  }
}

Status Slots::Dismantle(uint32_t slot) {
  ATOLL_TRY(host_.cgroups.RemoveGroup(SlotGroup(slot)));
  return janitor_.Discard(host_.store.root(), Store::UpperPath(slot));
}

}  // namespace atl::spawner
