#include "runtime/sandbox/ends/departures.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kSweepUs = 60'000'000;
// A large log may push out a thousand small entries. They go in steps, so the loop goes on.
constexpr int kDropsOfALeave = 4;
constexpr int kDropsOfASweep = 64;
constexpr int64_t kNextStepUs = 50'000;
constexpr int kDropsOfAFullDisk = 256;
constexpr int64_t kWarnUs = 60'000'000;

}  // namespace

Departures::Limits Departures::LimitsOf(const std::string& tenant) const {
  Limits limits{settings_.keep_seconds * 1000, settings_.max_bytes};
  if (const tenants::SharedTenant its = tenant.empty() ? nullptr : parts_.tenants.Find(tenant)) {
    if (its->history.keep_seconds) limits.keep_ms = *its->history.keep_seconds * 1000;
    if (its->history.max_bytes) limits.max_bytes = *its->history.max_bytes;
  }
  return limits;
}

Result<std::unordered_set<std::string>> Departures::Logs() {
  ATOLL_ASSIGN(const std::vector<GoneStore::Entry> entries, store().WithLogs());
  std::unordered_set<std::string> logs;
  for (const GoneStore::Entry& entry : entries) logs.insert(entry.log);
  return logs;
}

void Departures::Start() {
  RecoverRecordings();
  const auto shares = store().Shares();
  const auto entries = store().WithLogs();
  if (!shares || !entries) {
    LogLine(LogLevel::kError, "the history cannot be read")
        .Add(shares ? entries.error() : shares.error());
    return;
  }
  for (const GoneStore::Share& share : *shares) {
    shares_[share.tenant] = {share.entries, share.bytes};
    entries_ += share.entries;
  }
  for (const GoneStore::Entry& entry : *entries) {
    // An earlier daemon was killed before it knew the size.
    if (entry.measured) continue;
    parts_.logs.Measure(entry.log, guard_([this, tenant = entry.tenant, id = entry.id](
                                              uint64_t bytes) { Measured(tenant, id, bytes); }));
  }
  SweepIn(kNextStepUs);
}

Status Departures::Leave(const Sandbox& sandbox) {
  if (!sandbox.stocked && LimitsOf(sandbox.tenant).keep_ms > 0) {
    const Result<bool> kept = Keep(sandbox);
    if (kept && *kept) {
      Trim(sandbox.tenant, kDropsOfALeave);
      return {};
    }
    if (!kept) {
      ++dropped_[static_cast<size_t>(Dropped::kFullDisk)];
      LogLine(LogLevel::kWarning, "a sandbox that is gone is not in the history")
          .Add("sandbox", sandbox.id)
          .Add(kept.error());
    }
  }
  parts_.logs.Remove(HostId(sandbox));
  parts_.history.Remove(sandbox.id);
  parts_.recordings.Remove(sandbox.id);
  return parts_.store.Remove(sandbox.id);
}

Result<bool> Departures::Keep(const Sandbox& sandbox) {
  sqlite::Db& db = parts_.store.db();
  ATOLL_TRY(Store::CheckRoom(db));
  ATOLL_ASSIGN(sqlite::Transaction together, sqlite::Transaction::Begin(db));
  ATOLL_TRY(parts_.store.Remove(sandbox.id));
  // A create that has failed had no record.
  if (db.Changes() != 1) return false;
  const std::string& log = HostId(sandbox);
  const bool has_log =
      parts_.logs.Leave(log, guard_([this, tenant = sandbox.tenant, id = sandbox.id](
                                        uint64_t bytes) { Measured(tenant, id, bytes); }));
  ATOLL_ASSIGN(const uint64_t bytes,
               store().Keep(Remains(sandbox), parts_.clock.UnixMillis(),
                            has_log ? log : std::string(), parts_.recordings.SizeOf(sandbox.id)));
  ATOLL_TRY(together.Commit());
  Share& share = shares_[sandbox.tenant];
  ++share.entries;
  share.bytes += bytes;
  ++entries_;
  return true;
}

void Departures::Measured(const std::string& tenant, const std::string& id, uint64_t bytes) {
  const auto added = store().AddBytes(id, bytes);
  if (!added) {
    LogLine(LogLevel::kWarning, "cannot record the size of a log; the next start will")
        .Add("sandbox", id)
        .Add(added.error());
  }
  // The entry may have been dropped meanwhile.
  if (!added || !*added) return;
  shares_[tenant].bytes += bytes;
  Trim(tenant, kDropsOfALeave);
}

void Departures::RecoverRecordings() {
  using Holder = Recordings::Holder;
  parts_.recordings.Recover([this](const std::string& id) {
    if (parts_.registry.Look(id) != nullptr) return Holder::kSandbox;
    const auto found = store().Find(id);
    // Kept, if the history cannot be read.
    return !found || *found ? Holder::kEntry : Holder::kNobody;
  });
}

uint64_t Departures::RoomToRecord(const std::string& tenant) const {
  uint64_t taken = 0;
  for (const auto& [id, sandbox] : parts_.registry) {
    if (sandbox.tenant == tenant) taken += parts_.recordings.MostOf(id);
  }
  const uint64_t most = LimitsOf(tenant).max_bytes;
  return most - std::min(most, taken);
}

bool Departures::Exceeds(const std::string& tenant) const {
  const auto share = shares_.find(tenant);
  if (share == shares_.end() || share->second.entries == 0) return false;
  return share->second.entries > kMostOfTenant || share->second.bytes > LimitsOf(tenant).max_bytes;
}

void Departures::Trim(const std::string& tenant, int most) {
  for (; Exceeds(tenant); --most) {
    if (most == 0) return SweepIn(kNextStepUs);
    if (!DropOldest(tenant, Dropped::kSize)) return;
  }
  for (; entries_ > kMostOfAll; --most) {
    if (most <= 0) return SweepIn(kNextStepUs);
    const auto largest = std::max_element(
        shares_.begin(), shares_.end(),
        [](const auto& a, const auto& b) { return a.second.entries < b.second.entries; });
    if (!DropOldest(std::string(largest->first), Dropped::kSize)) return;
  }
}

bool Departures::DropOldest(const std::optional<std::string>& tenant, Dropped why) {
  const auto oldest = store().Oldest(tenant);
  const Status dropped = !oldest   ? Status(Fail(oldest.error()))
                         : *oldest ? Drop(**oldest)
                                   : Status(Fail(Code::kNotFound, "it has no entry"));
  if (dropped) {
    ++dropped_[static_cast<size_t>(why)];
    return true;
  }
  if (!oldest || *oldest) {
    LogLine(LogLevel::kWarning, "cannot drop an entry of the history").Add(dropped.error());
  }
  return false;
}

Status Departures::Drop(const GoneStore::Entry& entry) {
  ATOLL_TRY(store().Drop(entry.id));
  if (!entry.log.empty()) parts_.logs.Remove(entry.log);
  parts_.history.Remove(entry.id);
  parts_.recordings.Remove(entry.id);
  Share& share = shares_[entry.tenant];
  share.entries -= std::min<uint64_t>(share.entries, 1);
  share.bytes -= std::min(share.bytes, entry.bytes);
  if (share.entries == 0) shares_.erase(entry.tenant);
  entries_ -= std::min<uint64_t>(entries_, 1);
  return {};
}

void Departures::SweepIn(int64_t delay_us) {
  parts_.loop.Cancel(timer_);
  timer_ = parts_.loop.After(delay_us, [this] { Sweep(); });
}

void Departures::Sweep() {
  const int64_t now = parts_.clock.UnixMillis();
  std::vector<std::string> tenants;
  for (const auto& [tenant, share] : shares_) tenants.push_back(tenant);
  int most = kDropsOfASweep;
  for (const std::string& tenant : tenants) {
    const int64_t keep_ms = LimitsOf(tenant).keep_ms;
    for (;; --most) {
      const auto oldest = store().Oldest(tenant);
      if (!oldest || !*oldest || (*oldest)->gone_ms > now - keep_ms) break;
      if (most <= 0) return SweepIn(kNextStepUs);
      if (!DropOldest(tenant, Dropped::kAge)) break;
    }
    for (; Exceeds(tenant); --most) {
      if (most <= 0) return SweepIn(kNextStepUs);
      if (!DropOldest(tenant, Dropped::kSize)) break;
    }
  }
  SweepIn(kSweepUs);
}

void Departures::GiveUp() {
  uint64_t gone = 0;
  while (gone < kDropsOfAFullDisk && DropOldest(std::nullopt, Dropped::kFullDisk)) ++gone;
  const int64_t now_us = parts_.clock.BootMicros();
  if (gone == 0 || (warned_us_ != 0 && now_us - warned_us_ < kWarnUs)) return;
  warned_us_ = now_us;
  LogLine(LogLevel::kWarning, "the disk is full: the oldest part of the history was given up")
      .Add("sandboxes", gone);
}

bool Departures::HasEntry(const Sandbox& sandbox) {
  return !sandbox.stocked && LimitsOf(sandbox.tenant).keep_ms > 0 &&
         parts_.store.Has(sandbox.id).value_or(false);
}

Result<std::optional<GoneSandbox>> Departures::Find(const tenants::Caller& caller,
                                                    const std::string& id) {
  if (const Sandbox* const sandbox = parts_.registry.Look(id)) {
    if (!MaySee(caller, *sandbox) || !IsLeaving(sandbox->state) || !HasEntry(*sandbox))
      return std::optional<GoneSandbox>();
    return std::optional(
        GoneSandbox{sandbox->transition_at_ms, 0, Remains(*sandbox), HostId(*sandbox), 0});
  }
  ATOLL_ASSIGN(std::optional<GoneSandbox> found, store().Find(id));
  if (found && !caller.Sees(found->sandbox.tenant)) found.reset();
  return found;
}

std::vector<GoneSandbox> Departures::Leaving(const tenants::Caller& caller) {
  std::vector<GoneSandbox> leaving;
  for (const auto& [id, sandbox] : parts_.registry) {
    if (!MaySee(caller, sandbox) || !IsLeaving(sandbox.state) || !HasEntry(sandbox)) continue;
    leaving.push_back({sandbox.transition_at_ms, 0, Remains(sandbox), HostId(sandbox), 0});
  }
  return leaving;
}

std::string Departures::RecentLogOf(const tenants::Caller& caller, const std::string& id) {
  if (settings_.log_seconds <= 0 || parts_.registry.Look(id) != nullptr) return {};
  const auto found = Find(caller, id);
  if (!found || !*found) return {};
  const int64_t until_ms = (*found)->gone_ms + settings_.log_seconds * 1000;
  return parts_.clock.UnixMillis() < until_ms ? (*found)->log : std::string();
}

Departures::Stats Departures::stats() const {
  Stats stats{entries_, 0, dropped_};
  for (const auto& [tenant, share] : shares_) stats.bytes += share.bytes;
  return stats;
}

}  // namespace atl::sandbox
