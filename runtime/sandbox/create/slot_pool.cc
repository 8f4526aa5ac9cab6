#include "runtime/sandbox/create/slot_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/create/slot_sockets.h"

namespace atl::sandbox {
namespace {

// The spawner prepares one slot after the other; a second request keeps it busy while the daemon
// handles the first answer.
constexpr size_t kPreparingAtOnce = 2;
// A link disappears 10 to 50 ms after its namespace.
constexpr int64_t kLinkPollUs = 10'000;
constexpr int64_t kMostWaitUs = 10'000'000;
// A link that still exists after this time is held by something that will not end by itself.
constexpr int64_t kStrayLinkUs = 30'000'000;
constexpr int64_t kBuildRetryUs = 1'000'000;
constexpr int kTries = 3;

}  // namespace

SlotPool::SlotPool(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner,
                   netpolicy::Network& network, const Config& config)
    : loop_(loop),
      clock_(clock),
      spawner_(spawner),
      network_(network),
      config_(config),
      use_(config.last_slot + 1, Use::kFree),
      prepared_cpu_(config.last_slot + 1) {}

SlotPool::~SlotPool() {
  loop_.Cancel(timer_);
  for (const Ready& slot : ready_) RemoveSlotSocket(config_.socket_directory, slot.number);
}

void SlotPool::Reset(const std::vector<uint32_t>& live, const std::vector<uint32_t>& prepared) {
  ++generation_;
  preparing_ = 0;
  retry_at_us_ = 0;
  // The namespaces of ready and resting slots are about to disappear, or the slots have a new owner
  // in `prepared`.
  std::vector<uint32_t> leftover;
  for (const Ready& slot : ready_) {
    leftover.push_back(slot.number);
    RemoveSlotSocket(config_.socket_directory, slot.number);
  }
  for (const Resting& resting : resting_) leftover.push_back(resting.slot);
  ready_.clear();
  resting_.clear();
  std::fill(use_.begin(), use_.end(), Use::kFree);
  fresh_from_ = 1;
  const auto claim = [&](uint32_t slot) {
    if (slot == 0 || slot > config_.last_slot || use_[slot] != Use::kFree) return false;
    use_[slot] = Use::kUsed;
    return true;
  };
  for (uint32_t slot : live) claim(slot);
  for (uint32_t slot : prepared) {
    if (claim(slot)) {
      Discard(slot);
    } else if (slot < use_.size() && use_[slot] == Use::kUsed) {
      use_[slot] = Use::kTaken;  // taken by a build that was interrupted
    }
  }
  for (uint32_t slot : leftover) {
    if (claim(slot)) Rest(slot);
  }
  Pump();
}

std::deque<SlotPool::Waiter>::iterator SlotPool::FirstWaiter(const std::string& tier) {
  return std::find_if(waiters_.begin(), waiters_.end(),
                      [&tier](const Waiter& waiter) { return waiter.tier == tier; });
}

void SlotPool::Take(Taken taken, const std::string& tier) {
  last_used_us_ = clock_.BootMicros();
  if (tier == config_.tier && !ready_.empty() && FirstWaiter(tier) == waiters_.end()) {
    Ready slot = std::move(ready_.front());
    ready_.pop_front();
    use_[slot.number] = Use::kTaken;
    taken(std::move(slot));
    Pump();
    return;
  }
  ++misses_total_;
  waiters_.push_back({tier, std::move(taken), clock_.BootMicros()});
  Pump();
}

void SlotPool::Release(uint32_t slot) {
  use_[slot] == Use::kTaken ? Discard(slot) : Detach(slot);
}

void SlotPool::Detach(uint32_t slot) {
  if (auto detached = network_.DetachSlot(slot); !detached) {
    LogLine(LogLevel::kWarning, "cannot detach a slot from the network")
        .Add("slot", slot)
        .Add(detached.error());
  }
  Rest(slot);
  Pump();
}

SlotPool::Wrong SlotPool::Mend(const std::vector<uint32_t>& owned,
                               const std::vector<uint32_t>& prepared) {
  Wrong wrong;
  std::vector<bool> has_owner(use_.size());
  std::vector<bool> in_stock(use_.size());
  for (const uint32_t slot : owned) {
    if (slot < use_.size()) has_owner[slot] = true;
  }
  for (const uint32_t slot : prepared) {
    if (slot < use_.size()) in_stock[slot] = true;
  }
  for (uint32_t slot = 1; slot < use_.size(); ++slot) {
    if ((use_[slot] == Use::kTaken || use_[slot] == Use::kUsed) && !has_owner[slot]) {
      ++wrong.slots;
      in_stock[slot] ? Discard(slot) : Detach(slot);
    } else if ((use_[slot] == Use::kFree || use_[slot] == Use::kResting) && in_stock[slot]) {
      ++wrong.slots;
      std::erase_if(resting_, [slot](const Resting& resting) { return resting.slot == slot; });
      Discard(slot);
    } else if (use_[slot] == Use::kReady && !in_stock[slot]) {
      ++wrong.slots;
      std::erase_if(ready_, [slot](const Ready& ready) { return ready.number == slot; });
      RemoveSlotSocket(config_.socket_directory, slot);
      Detach(slot);
    }
  }
  std::vector<uint32_t> lingering;
  const int64_t now = clock_.BootMicros();
  for (const Resting& resting : resting_) {
    if (now - resting.since_us < kStrayLinkUs || network_.SlotLinkGone(resting.slot)) continue;
    lingering.push_back(resting.slot);
  }
  if (lingering.empty()) return wrong;
  wrong.links = static_cast<uint32_t>(lingering.size());
  if (auto removed = network_.RemoveLinks(lingering); !removed) {
    LogLine(LogLevel::kError, "cannot remove links that were left").Add(removed.error());
  }
  return wrong;
}

void SlotPool::Discard(uint32_t slot) {
  use_[slot] = Use::kDropping;
  RemoveSlotSocket(config_.socket_directory, slot);
  spawner_.Ask(wire::DropSlot{slot}, [this, slot, generation = generation_](Status dropped) {
    if (generation != generation_) return;
    // kFailedPrecondition: the slot was not prepared.
    if (!dropped && dropped.error().code() != Code::kFailedPrecondition) {
      LogLine(LogLevel::kWarning, "cannot drop a slot").Add("slot", slot).Add(dropped.error());
    }
    Detach(slot);
  });
}

void SlotPool::GiveWay() {
  last_used_us_ = clock_.BootMicros();
}

void SlotPool::SetBusy(bool busy) {
  busy_ = busy;
  if (busy) return;
  last_used_us_ = clock_.BootMicros();
  Pump();
}

void SlotPool::Rest(uint32_t slot) {
  if (std::exchange(use_[slot], Use::kResting) == Use::kResting) return;
  resting_.push_back({slot, clock_.BootMicros()});
}

uint32_t SlotPool::PickNumber() {
  const int64_t now = clock_.BootMicros();
  const auto take_oldest = [&]() -> uint32_t {
    // A link that lingers must not delay the slots behind it.
    for (size_t tries = std::min<size_t>(resting_.size(), 4); tries > 0; --tries) {
      const Resting oldest = resting_.front();
      resting_.pop_front();
      if (network_.SlotLinkGone(oldest.slot)) return oldest.slot;
      resting_.push_back(oldest);
    }
    return 0;
  };
  if (!resting_.empty() && now - resting_.front().since_us >= config_.rest_us) {
    if (const uint32_t slot = take_oldest(); slot != 0) return slot;
  }
  while (fresh_from_ <= config_.last_slot && use_[fresh_from_] != Use::kFree) ++fresh_from_;
  if (fresh_from_ <= config_.last_slot) return fresh_from_++;
  return take_oldest();
}

void SlotPool::Pump() {
  while (preparing_ < kPreparingAtOnce) {
    const int64_t now = clock_.BootMicros();
    if (waiters_.size() <= preparing_) {
      // No take waits: refill the stock, in quiet moments.
      if (busy_ || preparing_ > 0 || ready_.size() >= config_.ready) return;
      // Half a stock is enough until the client of the last build has had its first output. A
      // smaller stock is refilled at once.
      const bool low = ready_.size() * 2 < config_.ready;
      const int64_t rest_until = last_used_us_ + (low ? 0 : config_.refill_delay_us);
      const int64_t due = std::max(rest_until, retry_at_us_);
      if (now < due) return PumpLater(due - now);
    }
    const uint32_t slot = PickNumber();
    if (slot == 0) {
      if (resting_.empty()) {
        // Live sandboxes own all numbers.
        while (waiters_.size() > preparing_) {
          const Taken taken = std::move(waiters_.back().taken);
          waiters_.pop_back();
          taken(Fail(Code::kResourceExhausted,
                     "all " + std::to_string(config_.last_slot) +
                         " network slots are in use; delete a sandbox first"));
        }
        return;
      }
      GiveUpOldWaiters(now);
      return PumpLater(kLinkPollUs);
    }
    // A waiter takes its slot before anything could boot.
    const bool waits = waiters_.size() > preparing_;
    Prepare(slot, waits ? waiters_[preparing_].tier : config_.tier, config_.ahead && !waits);
  }
}

void SlotPool::PumpLater(int64_t delay_us) {
  if (timer_ != 0) return;
  timer_ = loop_.After(delay_us, [this] {
    timer_ = 0;
    Pump();
  });
}

void SlotPool::Prepare(uint32_t slot, const std::string& tier, bool ahead) {
  ++preparing_;
  use_[slot] = Use::kPreparing;
  auto sockets = OpenSlotSockets(config_.socket_directory, slot);
  if (!sockets) {
    // Reports the error from the loop, as an answer of the spawner would come.
    loop_.Post(guard_([this, slot, tier, generation = generation_, error = sockets.error()] {
      if (generation != generation_) return;
      --preparing_;
      Prepared({slot, tier, UniqueFd()}, Fail(error));
      Pump();
    }));
    return;
  }
  // std::function requires copyable captures.
  auto control = std::make_shared<UniqueFd>(std::move(sockets->control));
  const auto done = guard_([this, slot, tier, control,
                            generation = generation_](const Result<wire::PreparedSlot>& prepared) {
    if (generation != generation_) return;
    --preparing_;
    Prepared({slot, tier, std::move(*control)}, prepared);
    Pump();
  });
  spawner_.Ask(wire::PrepareSlot{slot, config_.limits, std::move(sockets->execd_control),
                                 std::move(sockets->execd_listener), tier, ahead},
               done);
}

void SlotPool::Prepared(Ready slot, const Result<wire::PreparedSlot>& prepared) {
  const uint32_t number = slot.number;
  if (!prepared) {
    RemoveSlotSocket(config_.socket_directory, number);
    Rest(number);
    return PrepareFailed(slot, Error(prepared.error()).Wrap("prepare slot"));
  }
  for (size_t i = 0; i < step_seconds_.size(); ++i) {
    step_seconds_[i].Record(prepared->micros[i] / 1e6, kStepBounds);
  }
  if (auto attached = network_.AttachSlot(number, prepared->rtnetlink.get()); !attached) {
    Discard(number);
    return PrepareFailed(slot, std::move(attached).error().Wrap("attach slot"));
  }
  ++prepared_total_;
  prepared_cpu_[number] = prepared->cpu_micros;
  failures_in_a_row_ = 0;
  unready_in_a_row_ = 0;
  const auto waiter = FirstWaiter(slot.tier);
  if (waiter == waiters_.end() && slot.tier != config_.tier) return Discard(number);
  use_[number] = waiter == waiters_.end() ? Use::kReady : Use::kTaken;
  if (waiter == waiters_.end()) {
    ready_.push_back(std::move(slot));
    return;
  }
  const Taken taken = std::move(waiter->taken);
  waiters_.erase(waiter);
  taken(std::move(slot));
}

void SlotPool::GiveUpOldWaiters(int64_t now_us) {
  while (!waiters_.empty() && now_us - waiters_.front().since_us >= kMostWaitUs) {
    const Taken taken = std::move(waiters_.front().taken);
    waiters_.pop_front();
    taken(Fail(Code::kUnavailable,
               "the links of all free network slots are still being taken down; try again"));
  }
}

void SlotPool::PrepareFailed(const Ready& slot, Error error) {
  // kFailedPrecondition: the files of the slot's last sandbox are still being deleted. The slot
  // rests again behind all others, so no create waits for that deletion unless all slots are in
  // this state.
  if (error.code() == Code::kFailedPrecondition && ++unready_in_a_row_ <= resting_.size()) return;
  unready_in_a_row_ = 0;
  ++failures_in_a_row_;
  if (const auto waiter = FirstWaiter(slot.tier); waiter != waiters_.end()) {
    if (failures_in_a_row_ % kTries != 0) return;  // Pump takes another number
    const Taken taken = std::move(waiter->taken);
    waiters_.erase(waiter);
    taken(Fail(std::move(error)));
    return;
  }
  LogLine(LogLevel::kWarning, "cannot prepare a slot").Add("slot", slot.number).Add(error);
  retry_at_us_ = clock_.BootMicros() + kBuildRetryUs;
}

}  // namespace atl::sandbox
