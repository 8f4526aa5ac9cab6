#include "runtime/spawner/slot/slots.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/host/limit_policy.h"
#include "runtime/spawner/kernel/worker.h"

namespace atl::spawner {
namespace {

constexpr int kStraySlotPatienceMs = 1000;
constexpr int64_t kSlotEndPatienceUs = 1000 * 1000;
// The builder may be waiting for a disk; once killed, it ends when the disk answers.
constexpr int kBuilderPatienceMs = 3000;
constexpr int kKilledPatienceMs = 1000;
constexpr size_t kAskedAtOnce = 16;
constexpr size_t kMostWaiting = 256;  // each holds two descriptors

std::string TrashName(uint32_t slot) {
  return "s" + std::to_string(slot);
}

// Only process 1 is in the group, so the group is empty once process 1 is reaped. If it does not
// end in time, Dismantle fails with EBUSY.
void End(const Slot& slot, int64_t by_us) {
  int status;
  // The number of a process that has ended and been reaped may be another process's by now.
  if (::waitpid(slot.execd, &status, WNOHANG) != 0) return;
  ::kill(slot.execd, SIGKILL);
  const int64_t left_us = std::max<int64_t>(by_us - SystemClock().BootMicros(), 0);
  [[maybe_unused]] const bool ended = AwaitEnd(slot.execd, static_cast<int>(left_us / 1000));
}

tl::unexpected<Error> NotPrepared(uint32_t slot) {
  return Fail(Code::kFailedPrecondition, "slot " + std::to_string(slot) + ": not prepared");
}

int64_t EndBy() {
  return SystemClock().BootMicros() + kSlotEndPatienceUs;
}

}  // namespace

Status CheckSocket(int fd, bool listening) {
  int domain = 0, type = 0, accepting = 0;
  socklen_t size = sizeof domain;
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) {
    return Fail(Code::kPermissionDenied, "slot: a descriptor is not a socket");
  }
  ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
  ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &size);
  if (domain != AF_UNIX || type != SOCK_STREAM || (accepting != 0) != listening) {
    return Fail(Code::kPermissionDenied, "slot: a descriptor is not the expected Unix socket");
  }
  return {};
}

Status Slots::Start() {
  ATOLL_ASSIGN(builder_, SlotBuilder::Start(host_, tiers_));
  ATOLL_ASSIGN(builder_watch_,
               loop_.Watch(builder_->channel(), EPOLLIN, [this](uint32_t) { Receive(); }));
  return {};
}

void Slots::Prepare(wire::PrepareSlot message, Done done) {
  const uint32_t slot = message.slot;
  if (slot == 0 || slot > kMaxSlot) {
    return done(Fail(Code::kInvalidArgument, "slot " + std::to_string(slot) + ": out of range"));
  }
  const auto tier = tiers_.Able(message.tier, Verb::kPrepare);
  if (!tier) return done(Fail(tier.error()));
  // So the trash never holds more than as many sandboxes as there are slots may write. A sandbox
  // that fills it delays only its own slot.
  if (Janitor::Holds(host_.store.root(), TrashName(slot))) {
    return done(Fail(Code::kFailedPrecondition,
                     "slot " + std::to_string(slot) +
                         ": the files of its last sandbox are still being deleted"));
  }
  if (const auto found = pending_.find(slot); found != pending_.end() && !found->second.done) {
    return done(Fail(
        Code::kFailedPrecondition,
        "slot " + std::to_string(slot) + ": it is still being made for a daemon that has gone"));
  }
  if (pending_.count(slot) != 0 || prepared_.count(slot) != 0 || in_use_().test(slot)) {
    return done(Fail(Code::kAlreadyExists, "slot " + std::to_string(slot) + ": in use"));
  }
  Status right = CheckLimits(host_, message.limits);
  if (right) right = CheckSocket(message.control.get(), false);
  if (right) right = CheckSocket(message.listener.get(), true);
  if (!right) return done(Fail(right.error()));
  // The leftovers of a dead spawner must not be inherited.
  if (!clean_[slot]) {
    const Status clean = ClearStray(slot);
    if (!clean) return done(Fail(clean.error()));
  }
  if (waiting_.size() >= kMostWaiting) {
    return done(Fail(Code::kUnavailable, "too many slots are being made"));
  }
  clean_[slot] = false;
  pending_[slot] = Pending{.limits = message.limits, .tier = *tier, .done = std::move(done)};
  waiting_.push_back(std::move(message));
  AskBuilder();
}

void Slots::AskBuilder() {
  for (bool again = true; !waiting_.empty() && asked_ < kAskedAtOnce;) {
    Status asked = builder_ ? Status() : Start();
    if (asked) asked = builder_->Ask(waiting_.front());
    if (!asked && builder_ && std::exchange(again, false)) {
      // The builder has died, and its channel has not told us yet. Start another one.
      BuilderDied(asked.error());
      continue;
    }
    const uint32_t slot = waiting_.front().slot;
    waiting_.pop_front();
    if (asked) {
      pending_.at(slot).asked = true;
      ++asked_;
      continue;
    }
    const Pending refused = std::move(pending_.extract(slot).mapped());
    refused.done(Fail(asked.error()));
  }
}

void Slots::Receive() {
  auto built = builder_->Receive();
  // DropAll may have taken the message that epoll has just announced.
  if (!built && built.error().error_number() == EAGAIN) return;
  if (!built) {
    BuilderDied(built.error());
    return AskBuilder();
  }
  --asked_;
  const auto found = pending_.find(built->slot);
  ATOLL_CHECK(found != pending_.end());
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  Slot slot{.execd = static_cast<pid_t>(built->pid),
            .start_time = 0,
            .gate = {},
            .limits = pending.limits,
            .tier = pending.tier};
  const auto* failed = std::get_if<wire::Failed>(&built->outcome);
  const auto started = failed ? Fail(failed->error()) : sys::ProcessStartTime(slot.execd);
  if (!started || !pending.done) {
    if (slot.execd > 0) End(slot, EndBy());
    const Status cleaned = Dismantle(built->slot);
    if (!cleaned) LogLine(LogLevel::kError, "cannot dismantle a slot").Add(cleaned.error());
    if (pending.done) pending.done(Fail(started.error()));
    return AskBuilder();
  }
  auto& parts = std::get<BuiltSlot::Parts>(built->outcome);
  slot.start_time = *started;
  if (const auto cpu = host_.cgroups.ReadCpuMicros(SlotGroup(built->slot))) {
    parts.prepared.cpu_micros = *cpu;
  } else {
    LogLine(LogLevel::kWarning, "a sandbox will owe the processor time of its slot's preparation")
        .Add("slot", static_cast<uint64_t>(built->slot))
        .Add(cpu.error());
  }
  slot.gate = std::move(parts.gate);
  prepared_[built->slot] = std::move(slot);
  pending.done(std::move(parts.prepared));
  AskBuilder();
}

void Slots::BuilderDied(const Error& error) {
  LogLine(LogLevel::kError, "the builder of slots has ended; the next slot starts another")
      .Add(error);
  loop_.Unwatch(builder_watch_);
  // The gates of the slots that it was building closed with it, so their execds end.
  builder_.reset();
  asked_ = 0;
  std::vector<Done> failed;
  std::erase_if(pending_, [&](auto& entry) {
    if (!entry.second.asked) return false;
    if (entry.second.done) failed.push_back(std::move(entry.second.done));
    return true;
  });
  for (const Done& done : failed) done(Fail(error));
}

Result<Slot> Slots::Take(uint32_t slot, const Tier* tier) {
  const auto found = prepared_.find(slot);
  if (found == prepared_.end() || found->second.tier != tier) {
    return NotPrepared(slot);
  }
  Slot taken = std::move(found->second);
  prepared_.erase(found);
  return taken;
}

Status Slots::Drop(uint32_t slot) {
  const auto found = prepared_.find(slot);
  if (found == prepared_.end()) return NotPrepared(slot);
  const Slot dropped = std::move(found->second);
  prepared_.erase(found);
  End(dropped, EndBy());
  return Dismantle(slot);
}

void Slots::Abandon() {
  waiting_.clear();
  std::erase_if(pending_, [](const auto& entry) { return !entry.second.asked; });
  for (auto& [number, pending] : pending_) pending.done = nullptr;
  // Kill all at once, then wait for each.
  for (const auto& [number, slot] : prepared_) ::kill(slot.execd, SIGKILL);
  const auto prepared = std::move(prepared_);
  prepared_.clear();
  const int64_t by_us = EndBy();
  for (const auto& [number, slot] : prepared) {
    End(slot, by_us);
    const Status dropped = Dismantle(number);
    if (!dropped) {
      LogLine(LogLevel::kError, "cannot drop slot").Add("slot", number).Add(dropped.error());
    }
  }
}

void Slots::DropAll() {
  Abandon();
  const int64_t by_us = SystemClock().BootMicros() + int64_t{kBuilderPatienceMs} * 1000;
  while (!pending_.empty()) {
    const int64_t left_us = std::max<int64_t>(by_us - SystemClock().BootMicros(), 0);
    pollfd built{builder_->channel(), POLLIN, 0};
    if (TEMP_FAILURE_RETRY(::poll(&built, 1, static_cast<int>(left_us / 1000))) <= 0) return;
    Receive();
  }
}

void Slots::StopBuilder() {
  if (!builder_) return;
  const pid_t pid = builder_->pid();
  loop_.Unwatch(builder_watch_);
  builder_.reset();
  if (AwaitEnd(pid, kBuilderPatienceMs)) return;
  LogLine(LogLevel::kError, "the builder of slots hangs; killing it").Add("pid", pid);
  ::kill(pid, SIGKILL);
  [[maybe_unused]] const bool ended = AwaitEnd(pid, kKilledPatienceMs);
}

std::vector<uint32_t> Slots::Stock() const {
  std::vector<uint32_t> slots;
  for (const auto& [number, slot] : prepared_) slots.push_back(number);
  return slots;
}

Result<std::vector<uint32_t>> Slots::RemoveStrays() {
  ATOLL_ASSIGN(std::vector<uint32_t> strays, host_.store.Uppers());
  ATOLL_ASSIGN(const std::vector<std::string> groups, host_.cgroups.Groups());
  for (const std::string& group : groups) strays.push_back(SlotOf(group));
  SlotSet owned = in_use_();
  owned.set(0);
  for (const auto& [number, slot] : prepared_) owned.set(number);
  for (const auto& [number, pending] : pending_) owned.set(number);
  std::erase_if(strays, [&owned](uint32_t slot) {
    const bool known = owned.test(slot);
    owned.set(slot);  // so that a slot with both is listed once
    return known;
  });
  for (const uint32_t slot : strays) {
    Status removed = Dismantle(slot);
    if (removed) continue;
    if (removed.error().error_number() == EBUSY) removed = host_.cgroups.Kill(SlotGroup(slot));
    if (removed) continue;
    LogLine(LogLevel::kError, "cannot remove what was left of a slot")
        .Add("slot", slot)
        .Add(removed.error());
  }
  return strays;
}

Status Slots::Dismantle(uint32_t slot) {
  leaving_(slot);
  ATOLL_TRY(host_.cgroups.RemoveGroup(SlotGroup(slot)));
  ATOLL_TRY(janitor_.Discard(host_.store.root(), Store::UpperPath(slot), TrashName(slot)));
  clean_[slot] = true;
  return {};
}

Status Slots::ClearStray(uint32_t slot) {
  Status cleared = Dismantle(slot);
  if (cleared || cleared.error().error_number() != EBUSY) return cleared;
  // A slot that a dead builder was making ends by itself, because nobody holds its gate, but not
  // yet.
  ATOLL_TRY(host_.cgroups.Kill(SlotGroup(slot)));
  ATOLL_TRY(host_.cgroups.AwaitEmpty(SlotGroup(slot), kStraySlotPatienceMs));
  return Dismantle(slot);
}

bool Slots::OnChildExit(pid_t pid) {
  if (builder_ && builder_->pid() == pid) {
    BuilderDied(Error(Code::kInternal, "the builder of slots died"));
    AskBuilder();
    return true;
  }
  const auto found = std::find_if(prepared_.begin(), prepared_.end(),
                                  [pid](const auto& entry) { return entry.second.execd == pid; });
  if (found == prepared_.end()) return false;
  LogLine(LogLevel::kError, "the execd of a slot in stock has ended").Add("slot", found->first);
  const uint32_t slot = found->first;
  prepared_.erase(found);
  const Status dismantled = Dismantle(slot);
  if (!dismantled) LogLine(LogLevel::kError, "cannot dismantle a slot").Add(dismantled.error());
  return true;
}

}  // namespace atl::spawner
