#include "runtime/sandbox/usage/meter.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kSampleUs = 10'000'000;
constexpr uint64_t kTicksOfDisks = 6;
// Beginnings and ends wait so long for others.
constexpr auto kGather = std::chrono::milliseconds(100);

tenants::Held HeldBy(const Sandbox& sandbox) {
  const cgroup::Limits& limits = sandbox.spec.limits;
  if (sandbox.state != State::kPaused) return {limits.cpu_millis, limits.memory_bytes};
  // A frozen sandbox takes no processor. Its memory is held until it is in swap.
  return {0, sandbox.reclaimed_bytes != 0 ? 0 : limits.memory_bytes};
}

// A member of a template waits for its claim, and runs its tenant's program.
bool IsParked(const Sandbox& sandbox) {
  return IsLive(sandbox.state) && sandbox.stocked;
}

bool IsMetered(const Sandbox& sandbox) {
  return IsLive(sandbox.state) && !sandbox.stocked && sandbox.slot != 0;
}

tenants::UsageReading ReadingOf(const cgroup::Meters& meters) {
  return {.cpu_us = meters.cpu_micros,
          .memory_bytes = meters.memory_bytes,
          .peak_memory_bytes = meters.peak_memory_bytes,
          .read_bytes = meters.read_bytes,
          .written_bytes = meters.written_bytes};
}

}  // namespace

Meter::Meter(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner,
             const Registry& registry, Sources sources)
    : loop_(loop),
      clock_(clock),
      spawner_(spawner),
      registry_(registry),
      sources_(std::move(sources)) {}

Meter::~Meter() {
  loop_.Cancel(timer_);
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.stop = true;
  }
  shared_.changed.notify_one();
  thread_.join();
}

Status Meter::Start() {
  if (!on()) return {};
  // Counters that are never stored are as old as the daemon.
  shared_.committed_us = clock_.BootMicros();
  ATOLL_ASSIGN(thread_, StartThread("meter", [this] { Run(); }));
  AskForEnds();
  Tick();
  return {};
}

void Meter::Tick() {
  for (const auto& [id, sandbox] : registry_) Refresh(sandbox);
  TellKept();
  TellCommands();
  if (ticks_++ % kTicksOfDisks == 0) MeasureDisks();
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.sample = true;
  }
  shared_.changed.notify_one();
  timer_ = loop_.After(kSampleUs, [this] { Tick(); });
}

void Meter::MeasureDisks() {
  spawner_.Ask(wire::MeasureDisks(), guard_([this](const Result<wire::Disks>& measured) {
                 // The next spawner is asked in a minute.
                 if (!measured || measured->disks.empty()) return;
                 std::unordered_map<uint32_t, std::string> owners;
                 for (const auto& [id, sandbox] : registry_) {
                   if (IsMetered(sandbox)) owners[sandbox.slot] = HostId(sandbox);
                 }
                 std::vector<std::pair<std::string, uint64_t>> disks;
                 for (const wire::SlotDisk& disk : measured->disks) {
                   const auto owner = owners.find(disk.slot);
                   if (owner != owners.end()) disks.emplace_back(owner->second, disk.bytes);
                 }
                 Tell([disks = std::move(disks), now = clock_.Now()](auto& ledger) {
                   for (const auto& [host_id, bytes] : disks) {
                     ledger.SampleDisk(host_id, bytes, now);
                   }
                 });
               }));
}

void Meter::OnCommand(const Sandbox& sandbox) {
  if (on()) ++commands_[HostId(sandbox)];
}

void Meter::TellCommands() {
  if (commands_.empty()) return;
  Tell([commands = std::exchange(commands_, {}), now = clock_.Now()](auto& ledger) {
    for (const auto& [host_id, count] : commands) ledger.CountCommands(host_id, count, now);
  });
}

void Meter::OnClaimed(const Sandbox& sandbox) {
  if (on()) Refresh(sandbox);
}

void Meter::OnTransition(const Sandbox& sandbox, State before) {
  if (!on()) return;
  Refresh(sandbox);
  // An earlier daemon has died before it stored the beginning, and now the sandbox ends.
  if (IsLive(before) && !sandbox.stocked && sandbox.slot != 0 && !known_.contains(sandbox.id)) {
    Begin(sandbox, HeldBy(sandbox));
  }
  if (IsOver(sandbox.state) || IsLeaving(sandbox.state)) known_.erase(sandbox.id);
}

void Meter::OnSnapshots() {
  if (on()) TellKept();
}

void Meter::OnPools(uint64_t members) {
  if (!on()) return;
  Tell([members, now = clock_.Now()](auto& ledger) { ledger.KeepUnowned(members, now); });
}

void Meter::TellKept() {
  std::map<std::string, tenants::Held> kept;
  for (const auto& [owner, bytes] : sources_.snapshot_bytes()) kept[owner].snapshot_bytes = bytes;
  for (const auto& [id, owner] : parked_) ++kept[owner].parked;
  if (kept_ == kept) return;
  kept_ = kept;
  Tell([kept = std::move(kept), now = clock_.Now()](auto& ledger) { ledger.Keep(kept, now); });
}

void Meter::Refresh(const Sandbox& sandbox) {
  const bool changed = IsParked(sandbox)
                           ? parked_.emplace(sandbox.id, sandbox.spec.network.tenant).second
                           : parked_.erase(sandbox.id) != 0;
  if (changed) TellKept();
  const auto found = known_.find(sandbox.id);
  if (found != known_.end() && found->second.labels != sandbox.metadata) {
    found->second.labels = sandbox.metadata;
    Tell([host_id = found->second.host_id, labels = sandbox.metadata](tenants::Ledger& ledger) {
      ledger.Describe(host_id, labels);
    });
  }
  if (!IsMetered(sandbox)) return;
  const tenants::Held held = HeldBy(sandbox);
  if (found == known_.end() || found->second.host_id != HostId(sandbox)) {
    return Begin(sandbox, held);
  }
  if (found->second.held == held) return;
  found->second.held = held;
  Tell([host_id = HostId(sandbox), held, now = clock_.Now()](tenants::Ledger& ledger) {
    ledger.Hold(host_id, held, now);
  });
}

void Meter::Begin(const Sandbox& sandbox, const tenants::Held& held) {
  const bool first = HostId(sandbox) == sandbox.id && !known_.contains(sandbox.id);
  known_[sandbox.id] = {HostId(sandbox), held, sandbox.metadata};
  tenants::UsagePart part{.id = HostId(sandbox),
                          .sandbox = sandbox.id,
                          .owner = sandbox.tenant,
                          .image = sandbox.spec.image,
                          .labels = sandbox.metadata,
                          .first = first,
                          .base = {}};
  part.base.cpu_us = sources_.prepared_cpu(sandbox.slot);
  // A member of a template has run before it was claimed. The sooner its counters are read, the
  // less of its client's work is taken for the host's.
  const bool has_run = !sandbox.spec.template_id.empty();
  Tell(
      [this, part = std::move(part), held, slot = sandbox.slot, has_run,
       now = clock_.Now()](auto& ledger) mutable {
        // If the counters cannot be read, the client owes what the host has done.
        if (has_run) part.base = Read(slot, sources_.read_links()).value_or(part.base);
        // A slot has one owner.
        std::erase_if(slots_, [slot](const auto& entry) { return entry.second == slot; });
        slots_[part.id] = slot;
        ledger.Begin(std::move(part), held, now);
      },
      has_run);
}

void Meter::OnDestroyed(const std::string& host_id, const wire::EndReading& end) {
  if (!on()) return;
  TellCommands();
  std::optional<tenants::UsageReading> reading;
  if (end.read) {
    reading = ReadingOf(end.meters);
    if (end.meters.memory_bytes == 0) reading->memory_bytes.reset();
    reading->bytes_in = end.bytes_in;
    reading->bytes_out = end.bytes_out;
    if (end.disk_bytes != 0) reading->disk_bytes = end.disk_bytes;
  }
  Instant ended{end.ended_ms, end.ended_boot_ms};
  // An older spawner does not tell the boot clock's time.
  if (ended.boot_ms == 0) ended.boot_ms = ended.unix_ms - clock_.Now().offset_ms();
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.ended.push_back(host_id);
    shared_.jobs.emplace_back([this, host_id, reading, ended](auto& ledger) {
      slots_.erase(host_id);
      ledger.End(host_id, reading, ended);
    });
  }
  shared_.changed.notify_one();
}

void Meter::Tell(Job job, bool hurry) {
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.jobs.push_back(std::move(job));
    shared_.hurry = shared_.hurry || hurry;
  }
  shared_.changed.notify_one();
}

void Meter::AskForEnds() {
  if (!on()) return;
  listing_ = true;
  Settle({});
}

void Meter::Settle(std::vector<std::string> host_ids) {
  spawner_.Ask(wire::SettleEnds{.ids = std::move(host_ids), .list = listing_},
               guard_([this](const Result<wire::Ends>& ends) {
                 // The next spawner, or the next daemon, asks again.
                 if (ends) OnEnds(*ends);
               }));
}

void Meter::OnEnds(const wire::Ends& ends) {
  if (!listing_) return;
  listing_ = ends.ends.size() == wire::kMaxEnds;
  for (const wire::SandboxEnd& end : ends.ends) OnDestroyed(end.id, end.reading);
  if (listing_) return;
  std::unordered_set<std::string> living;
  for (const auto& [id, sandbox] : registry_) {
    if (sandbox.slot != 0) living.insert(HostId(sandbox));
  }
  Tell([living = std::move(living)](tenants::Ledger& ledger) { ledger.EndOthers(living); });
}

void Meter::Checkpoint(std::function<void()> done) {
  if (!on()) return done();
  Ask(
      true, [](tenants::Ledger&) { return tenants::UsageAnswer(); },
      [done = std::move(done)](const auto&) { done(); });
}

void Meter::Query(tenants::UsageQuery query, Answered done) {
  if (!on()) {
    return done(Fail(Code::kUnimplemented, "nothing is metered: usage.keep_days is 0"));
  }
  const bool sample = query.sandboxes.empty();
  Ask(
      sample, [query = std::move(query)](tenants::Ledger& ledger) { return ledger.Query(query); },
      std::move(done));
}

void Meter::Ask(bool sample, Question question, Answered done) {
  TellCommands();
  const uint64_t number = ++asked_;
  waiting_[number] = std::move(done);
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.hurry = true;
    shared_.sample = shared_.sample || sample;
    shared_.questions.push_back({number, std::move(question)});
  }
  shared_.changed.notify_one();
}

void Meter::Answer(uint64_t number, Result<tenants::UsageAnswer> answer) {
  const auto found = waiting_.find(number);
  const Answered done = std::move(found->second);
  waiting_.erase(found);
  done(std::move(answer));
}

int64_t Meter::CheckpointAge() const {
  if (!on()) return -1;
  const std::lock_guard lock(shared_.mutex);
  return (clock_.BootMicros() - shared_.committed_us) / 1'000'000;
}

void Meter::Run() {
  tenants::Ledger& ledger = *sources_.ledger;
  std::vector<std::string> ended;  // applied, and not settled yet
  std::unique_lock lock(shared_.mutex);
  for (;;) {
    const auto urgent = [this] { return shared_.stop || shared_.sample || shared_.hurry; };
    shared_.changed.wait(lock, [&] { return urgent() || !shared_.jobs.empty(); });
    shared_.changed.wait_for(lock, kGather, urgent);
    const std::vector<Job> jobs = std::exchange(shared_.jobs, {});
    // One in each round, so questions hold up samples and ends no longer than the longest of them.
    std::optional<Asked> asked;
    if (!shared_.questions.empty()) {
      asked = std::move(shared_.questions.front());
      shared_.questions.pop_front();
    }
    shared_.hurry = !shared_.questions.empty();
    const bool stop = shared_.stop;
    const bool sample = std::exchange(shared_.sample, false) || stop;
    ended.insert(ended.end(), shared_.ended.begin(), shared_.ended.end());
    shared_.ended.clear();
    lock.unlock();
    for (const Job& job : jobs) job(ledger);
    if (sample) Sample();
    Commit(sample, &ended);
    if (asked) {
      loop_.Post(guard_([this, number = asked->number, answer = asked->question(ledger)]() mutable {
        Answer(number, std::move(answer));
      }));
    }
    lock.lock();
    if (stop) return;
  }
}

Result<tenants::UsageReading> Meter::Read(uint32_t slot,
                                          const std::map<uint32_t, LinkBytes>& links) const {
  ATOLL_ASSIGN(const cgroup::Meters meters, sources_.read(slot));
  tenants::UsageReading reading = ReadingOf(meters);
  if (const auto link = links.find(slot); link != links.end()) {
    reading.bytes_in = link->second.in;
    reading.bytes_out = link->second.out;
  }
  return reading;
}

void Meter::Sample() {
  const std::map<uint32_t, LinkBytes> links = sources_.read_links();
  std::unordered_map<std::string, tenants::UsageReading> readings;
  std::optional<Error> failed;
  for (const auto& [host_id, slot] : slots_) {
    auto reading = Read(slot, links);
    if (reading) {
      readings[host_id] = std::move(*reading);
    } else if (reading.error().code() != Code::kNotFound) {
      failed = std::move(reading).error();
    }
  }
  {
    // The slots of these may have been another sandbox's when they were read.
    const std::lock_guard lock(shared_.mutex);
    for (const std::string& host_id : shared_.ended) readings.erase(host_id);
  }
  const Instant now = clock_.Now();
  for (const auto& [host_id, reading] : readings) {
    sources_.ledger->Sample(host_id, reading, now);
  }
  const auto host_cpu = sources_.read_host_cpu();
  if (host_cpu) {
    sources_.ledger->SampleHost(*host_cpu, clock_.Now());
  } else {
    failed = host_cpu.error();
  }
  // The counters only grow, so the next sample that can be read has what this one lacks.
  if (failed && !blind_) {
    LogLine(LogLevel::kError, "cannot read what sandboxes use; trying again").Add(*failed);
  }
  blind_ = failed.has_value();
}

void Meter::Commit(bool durable, std::vector<std::string>* ended) {
  const Status committed = sources_.ledger->Commit(clock_.Now(), durable);
  if (!committed) {
    if (!std::exchange(failing_, true)) {
      LogLine(LogLevel::kWarning, "cannot write the ledger of usage; trying again")
          .Add(committed.error());
    }
    return;
  }
  failing_ = false;
  if (durable) {
    const std::lock_guard lock(shared_.mutex);
    shared_.committed_us = clock_.BootMicros();
  }
  while (!ended->empty()) {
    const size_t count = std::min(ended->size(), wire::kMaxEnds);
    std::vector<std::string> settled(ended->end() - static_cast<int64_t>(count), ended->end());
    ended->resize(ended->size() - count);
    loop_.Post(
        guard_([this, settled = std::move(settled)]() mutable { Settle(std::move(settled)); }));
  }
}

}  // namespace atl::sandbox
