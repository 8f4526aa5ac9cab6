#include "runtime/spawner/sandboxes/sandboxes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "cgroup/meters.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/buckets/object_mounts.h"
#include "runtime/spawner/host/limit_policy.h"
#include "runtime/spawner/kernel/link_bytes.h"
#include "runtime/spawner/root/device_mounts.h"
#include "runtime/spawner/root/root_child.h"
#include "runtime/spawner/root/volume_work.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

using wire::Step;

// A process that sleeps deep in the kernel, on a disk for instance, freezes only after that.
constexpr int64_t kFreezePatienceUs = 10 * 1000 * 1000;
// Additional time for a session that is being made: longer than Sessions allows it.
constexpr int64_t kBirthPatienceUs = 12 * 1000 * 1000;
// The freezer is mostly done within microseconds.
constexpr int64_t kFirstLookUs = 200;
// One such sandbox must not keep the daemon from destroying others.
constexpr int64_t kDestroyPatienceUs = 10 * 1000 * 1000;
// Most of that time that a group waits for its turn to be emptied; removal has priority.
constexpr int64_t kReclaimPatienceUs = 2 * 1000 * 1000;
// Interval of looking again at what takes processes some time.
constexpr int64_t kSweepUs = 5 * 1000;
// A removal takes a millisecond or more. When a thousand end together, the rest waits behind the
// daemon's requests, pings included.
constexpr size_t kRemovedAtOnce = 8;
// Each adopted sandbox is looked at once in that time, a few at a time. A look takes 30 us.
constexpr int64_t kLookUs = 700 * 1000;
constexpr size_t kLookedAtAtOnce = 16;

uint32_t& At(wire::StepMicros& micros, Step step) {
  return micros[static_cast<size_t>(step)];
}

bool ValidHostname(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

Status Sandboxes::CheckPlan(const wire::Plan& plan) const {
  if (!ValidSandboxId(plan.id)) {
    return Fail(Code::kInvalidArgument, "plan: '" + plan.id + "' is not a sandbox id");
  }
  if (sandboxes_.count(plan.id) != 0) {
    return Fail(Code::kAlreadyExists, "plan: sandbox " + plan.id + " exists");
  }
  if (!ValidHostname(plan.hostname)) {
    return Fail(Code::kInvalidArgument, "plan: bad host name '" + plan.hostname + "'");
  }
  if (plan.hosts.size() > wire::kMaxEtcFile || plan.resolv_conf.size() > wire::kMaxEtcFile) {
    return Fail(Code::kInvalidArgument, "plan: a file for /etc is too long");
  }
  if (plan.layers.empty()) return Fail(Code::kInvalidArgument, "plan: no layers");
  for (wire::LayerId layer : plan.layers) {
    if (!host_.store.HasLayer(layer)) {
      return Fail(Code::kNotFound, "plan: no layer " + std::to_string(layer));
    }
  }
  if (!plan.devices.empty() && plan.tier != wire::kNamespaceTier) {
    return Fail(Code::kUnimplemented, "plan: the tier '" + plan.tier + "' has no devices");
  }
  ATOLL_TRY(CheckDevices(host_, plan.devices));
  return CheckLimits(host_, plan.limits);
}

Result<Tier*> Sandboxes::TierOf(const std::string& id, Verb verb) const {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return Fail(Code::kNotFound, "no sandbox " + id);
  return tiers_.Able(found->second.record.tier, verb);
}

void Sandboxes::Build(const wire::Plan& plan, Built done) {
  wire::Built built;
  const Clock& clock = SystemClock();
  int64_t then = clock.BootMicros();
  const auto lap = [&](Step step) {
    const int64_t now = clock.BootMicros();
    At(built.micros, step) = static_cast<uint32_t>(now - then);
    then = now;
  };
  const auto refuse = [&](const Error& error) { done(Fail(wire::FailedAt(Step::kCheck, error))); };
  const Status checked = CheckPlan(plan);
  if (!checked) return refuse(checked.error());
  const auto tier = tiers_.Able(plan.tier, Verb::kBuild);
  if (!tier) return refuse(tier.error());
  auto slot = slots_->Take(plan.slot, *tier);
  if (!slot) return refuse(slot.error());
  lap(Step::kCheck);

  // The sandbox exists now, so a failure destroys it.
  Sandbox& sandbox = sandboxes_[plan.id];
  sandbox.record.sandbox.id = plan.id;
  sandbox.record.sandbox.slot = plan.slot;
  sandbox.record.sandbox.pid = static_cast<uint32_t>(slot->execd);
  sandbox.record.sandbox.layers = plan.layers;
  sandbox.record.start_time = slot->start_time;
  sandbox.record.tier = plan.tier;
  sandbox.record.link = plan.link;
  by_pid_[slot->execd] = plan.id;
  HoldLink(sandbox);
  const Status limited = ChangeLimits(plan.tier, plan.slot, slot->limits, plan.limits);
  lap(Step::kLimits);
  if (!limited) return FailBuild(plan.id, limited.error(), Step::kLimits, done);
  sandbox.limits = plan.limits;
  auto execd = sys::PidfdOpen(slot->execd);
  if (!execd) return FailBuild(plan.id, execd.error(), Step::kLimits, done);
  if (plan.volumes.empty() && plan.devices.empty()) {
    return Mounted(plan.id, slot->gate.get(), (*tier)->Build(plan, {}, *slot, execd->get()),
                   std::move(built), done);
  }
  auto buckets = Buckets(plan);
  if (!buckets) return FailBuild(plan.id, buckets.error(), Step::kVolumes, done);
  sandbox.mounting = true;
  std::vector<int> keep = {execd->get()};
  for (const int bucket : *buckets) {
    if (bucket >= 0) keep.push_back(bucket);
  }
  auto gate = std::make_shared<UniqueFd>(std::move(slot->gate));
  volume_work_->Start(
      plan.id, plan.volumes, std::move(keep),
      [&] { return (*tier)->Build(plan, *buckets, *slot, execd->get()); },
      [this, id = plan.id, gate, built, done = std::move(done)](const RootReport& report) {
        const auto found = sandboxes_.find(id);
        if (found == sandboxes_.end() || found->second.doomed) {
          return done(Fail(Code::kUnavailable, "sandbox " + id + " was ended while it was built"));
        }
        found->second.mounting = false;
        Mounted(id, gate->get(), report, built, done);
      });
}

void Sandboxes::FailBuild(const std::string& id, Error error, Step step, const Built& done) {
  Sandbox& sandbox = sandboxes_.at(id);
  // The slot's execd was killed: answer as for a slot that is not prepared.
  const bool lost = sandbox.record.sandbox.exited || error.error_number() == ESRCH ||  // setns
                    error.error_number() == EPIPE;                                     // its gate
  if (lost) error = Error(Code::kFailedPrecondition, "the slot's execd has ended");
  sandbox.build_failed = true;
  // Answers when nothing of it is left.
  Destroy(id, false, [done, failed = wire::FailedAt(step, std::move(error))](const auto&) {
    done(Fail(failed));
  });
}

void Sandboxes::Mounted(const std::string& id, int gate, const RootReport& report,
                        wire::Built built, const Built& done) {
  const Sandbox& sandbox = sandboxes_.at(id);
  for (size_t i = 0; i < report.micros.size(); ++i) built.micros[i] += report.micros[i];
  if (!report.status) return FailBuild(id, report.status.error(), report.step, done);
  objects_->Built(sandbox.record.sandbox.slot);
  const Clock& clock = SystemClock();
  int64_t then = clock.BootMicros();
  const auto lap = [&](Step step) {
    const int64_t now = clock.BootMicros();
    At(built.micros, step) = static_cast<uint32_t>(now - then);
    then = now;
  };
  const Status opened = sys::WriteAll(gate, "+");
  lap(Step::kGate);
  if (!opened) return FailBuild(id, opened.error(), Step::kGate, done);

  // Without its record the next spawner would take the sandbox for a stray and kill it, after it
  // was acknowledged.
  Status recorded = CreateRecord(records_.get(), sandbox.record);
  lap(Step::kState);
  if (!recorded) {
    return FailBuild(id, std::move(recorded).error().Wrap("run directory"), Step::kState, done);
  }
  built.pid = sandbox.record.sandbox.pid;
  done(built);
}

Result<std::vector<int>> Sandboxes::Buckets(const wire::Plan& plan) const {
  std::vector<int> buckets;
  for (uint32_t i = 0; i < plan.volumes.size(); ++i) {
    buckets.push_back(-1);
    if (plan.volumes[i].kind != wire::Volume::Kind::kObjects) continue;
    ATOLL_ASSIGN(buckets.back(), objects_->Find(plan.slot, i, plan.volumes[i]));
  }
  return buckets;
}

Status Sandboxes::ChangeLimits(std::string_view tier, uint32_t slot, const cgroup::Limits& now,
                               const cgroup::Limits& next) const {
  if (now.disk_bytes != next.disk_bytes) {
    ATOLL_TRY(host_.store.LimitUpper(slot, next.disk_bytes));
  }
  return host_.cgroups.SetLimits(SlotGroup(slot), WithOverhead(tier, now),
                                 WithOverhead(tier, next));
}

Status Sandboxes::Limit(const std::string& id, const cgroup::Limits& limits) {
  ATOLL_TRY(CheckLimits(host_, limits));
  ATOLL_ASSIGN(const Alive alive, Living(id));
  Sandbox& sandbox = sandboxes_.at(id);
  if (!sandbox.limits || sandbox.mounting) {
    return Fail(Code::kFailedPrecondition, "the present limits of sandbox " + id + " are unknown");
  }
  ATOLL_ASSIGN(Tier* const tier, tiers_.Able(sandbox.record.tier, Verb::kLimit));
  const cgroup::Limits now = *std::exchange(sandbox.limits, std::nullopt);
  ATOLL_TRY(ChangeLimits(sandbox.record.tier, alive.slot, now, limits));
  ATOLL_TRY(tier->Limit(alive.slot, alive.pidfd.get(), alive.pid, now, limits));
  sandbox.limits = limits;
  return {};
}

void Sandboxes::Freeze(const std::string& id, bool frozen, Gone done) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return done(Fail(Code::kNotFound, "no sandbox " + id));
  Sandbox& sandbox = found->second;
  if (const Gone waiting = std::exchange(sandbox.frozen, nullptr)) {
    waiting(Fail(Code::kFailedPrecondition, "replaced by a later request"));
  }
  sandbox.paused = frozen;
  if (!frozen) {
    // Its holder lets it go in a moment.
    if (sandbox.has_holder) return done({});
    return done(Thaw(sandbox));
  }
  if (Status asked = AskToStand(sandbox); !asked) return done(std::move(asked));
  sandbox.frozen = std::move(done);
  AwaitFreeze(id, kFirstLookUs);
}

Status Sandboxes::AskToStand(Sandbox& sandbox) {
  const uint32_t slot = sandbox.record.sandbox.slot;
  sandbox.frozen_by_us = SystemClock().BootMicros() + kFreezePatienceUs;
  sandbox.to_freeze = giving_birth_(slot);
  if (!sandbox.to_freeze) return AskTierToFreeze(sandbox, true);
  sandbox.frozen_by_us += kBirthPatienceUs;
  return {};
}

Status Sandboxes::Thaw(Sandbox& sandbox) {
  sandbox.to_freeze = false;
  return AskTierToFreeze(sandbox, false);
}

Status Sandboxes::AskTierToFreeze(const Sandbox& sandbox, bool frozen) const {
  ATOLL_ASSIGN(Tier* const tier, tiers_.Able(sandbox.record.tier, Verb::kFreeze));
  return tier->Freeze(sandbox.record.sandbox.slot, frozen);
}

bool Sandboxes::StandsStill(const std::string& id) const {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return true;
  const Sandbox& sandbox = found->second;
  return sandbox.to_freeze ||
         host_.cgroups.FreezeAsked(SlotGroup(sandbox.record.sandbox.slot)).value_or(true);
}

void Sandboxes::Hold(const std::string& id, Gone done) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end() || found->second.doomed || found->second.has_holder) {
    return done(Fail(Code::kFailedPrecondition, "sandbox " + id + " cannot be held"));
  }
  Sandbox& sandbox = found->second;
  const auto frozen = host_.cgroups.FreezeAsked(SlotGroup(sandbox.record.sandbox.slot));
  if (!frozen) return done(Fail(frozen.error()));
  sandbox.paused = *frozen || sandbox.to_freeze;
  if (Status asked = AskToStand(sandbox); !asked) return done(std::move(asked));
  sandbox.has_holder = true;
  sandbox.held = std::move(done);
  AwaitFreeze(id, kFirstLookUs);
}

void Sandboxes::AwaitFreeze(const std::string& id, int64_t again_us) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end() || !LookAtFreeze(found->second)) return;
  loop_.After(again_us,
              [this, id, again_us] { AwaitFreeze(id, std::min(again_us * 2, kSweepUs)); });
}

Status Sandboxes::LetGo(const std::string& id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end() || !found->second.has_holder) {
    return Fail(Code::kFailedPrecondition, "sandbox " + id + " has ended meanwhile");
  }
  Sandbox& sandbox = found->second;
  sandbox.has_holder = false;
  sandbox.held = nullptr;
  Status gone_on;
  if (!sandbox.paused) {
    gone_on = Thaw(sandbox);
  }
  if (sandbox.doomed) {
    return Fail(Code::kFailedPrecondition, "sandbox " + id + " has ended meanwhile");
  }
  return gone_on;
}

uint32_t Sandboxes::LiveSlot(const std::string& id) const {
  const auto found = sandboxes_.find(id);
  const bool lives = found != sandboxes_.end() && !found->second.doomed &&
                     !found->second.build_failed && !found->second.record.sandbox.exited;
  return lives ? found->second.record.sandbox.slot : 0;
}

std::string Sandboxes::LiveIn(uint32_t slot) const {
  for (const auto& [id, sandbox] : sandboxes_) {
    if (sandbox.record.sandbox.slot == slot && LiveSlot(id) != 0) return id;
  }
  return {};
}

Result<Sandboxes::Alive> Sandboxes::Living(const std::string& id) const {
  const uint32_t slot = LiveSlot(id);
  if (slot == 0) return Fail(Code::kNotFound, "no sandbox " + id + " that lives");
  const Record& record = sandboxes_.at(id).record;
  Alive alive{.slot = slot, .pid = static_cast<pid_t>(record.sandbox.pid), .pidfd = {}};
  ATOLL_ASSIGN(alive.pidfd, sys::PidfdOpen(alive.pid));
  // The pid of an adopted sandbox may be another process's by now, if its end has not been seen
  // yet.
  ATOLL_ASSIGN(const uint64_t started, sys::ProcessStartTime(alive.pid));
  if (started != record.start_time) return Fail(Code::kFailedPrecondition, "the sandbox has ended");
  return alive;
}

bool Sandboxes::LookAtFreeze(Sandbox& sandbox) {
  if (!sandbox.frozen && !sandbox.held) return false;
  Status status;
  if (sandbox.to_freeze && !giving_birth_(sandbox.record.sandbox.slot))
    status = AskToStand(sandbox);
  const auto frozen = host_.cgroups.Frozen(SlotGroup(sandbox.record.sandbox.slot));
  if (!status || !frozen) {
    if (status) status = Fail(frozen.error());
  } else if (sandbox.record.sandbox.exited) {
    status = Fail(Code::kFailedPrecondition, "the sandbox has ended");
  } else if (!*frozen) {
    if (SystemClock().BootMicros() < sandbox.frozen_by_us) return true;
    status =
        Fail(Code::kDeadlineExceeded, "a process of the sandbox was not frozen within 10 seconds");
    sandbox.to_freeze = false;
  }
  // Each callback may ask for something else at once.
  for (const Gone& waiting :
       {std::exchange(sandbox.frozen, nullptr), std::exchange(sandbox.held, nullptr)}) {
    if (waiting) waiting(status);
  }
  return false;
}

void Sandboxes::Destroy(const std::string& id, bool keep_reading, Destroyed done) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return done(wire::Destroyed{ends_.Find(id)});
  Sandbox& sandbox = found->second;
  const bool leaving = sandbox.doomed && sandbox.record.sandbox.exited;
  sandbox.gone.push_back(std::move(done));
  sandbox.doomed = true;
  sandbox.keep_reading = sandbox.keep_reading || keep_reading;
  sandbox.gone_by_us = SystemClock().BootMicros() + kDestroyPatienceUs;
  if (leaving) return;
  if (sandbox.record.sandbox.exited) return Leave(id);
  if (sandbox.keep_reading) ReadBeforeKill(sandbox.record);
  Kill(id, sandbox);
  SweepAfter(kSweepUs);
}

void Sandboxes::Leave(const std::string& id) {
  // It has ended in time. The queue for removal has a deadline of its own.
  sandboxes_.at(id).gone_by_us = SystemClock().BootMicros() + kDestroyPatienceUs;
  leaving_.push_back(id);
  SweepAfter(0);
}

void Sandboxes::Kill(const std::string& id, const Sandbox& sandbox) {
  if (sandbox.mounting) volume_work_->Cancel(id);
  objects_->Dismiss(sandbox.record.sandbox.slot);
  // One write kills every process of the group, forks in flight included, whether frozen or stopped
  // (Linux 5.14).
  const Status killed = host_.cgroups.Kill(SlotGroup(sandbox.record.sandbox.slot));
  if (!killed) {
    LogLine(LogLevel::kError, "cgroup.kill failed").Add("sandbox", id).Add(killed.error());
  }
  // A process that somebody on the host has taken out of the group ends with process 1. ESRCH:
  // process 1 has ended.
  if (sandbox.pidfd) {
    (void)sys::PidfdSignal(sandbox.pidfd.get(), SIGKILL);
  } else {
    ::kill(static_cast<pid_t>(sandbox.record.sandbox.pid), SIGKILL);
  }
}

void Sandboxes::DestroyAll(Gone done) {
  std::vector<std::string> ids;
  for (const auto& [id, sandbox] : sandboxes_) ids.push_back(id);
  if (ids.empty()) return done({});
  struct Left {
    size_t count;
    Status failed;
  };
  auto left = std::make_shared<Left>(ids.size(), Status());
  for (const std::string& id : ids) {
    Destroy(id, false, [left, done](const Result<wire::Destroyed>& destroyed) {
      if (!destroyed) left->failed = Fail(destroyed.error());
      if (--left->count == 0) done(left->failed);
    });
  }
}

bool Sandboxes::OnChildExit(pid_t pid, int wait_status) {
  if (const auto emptied = reclaims_.OnChildExit(pid)) {
    sandboxes_.at(*emptied).caches = Caches::kEmptied;
    SweepAfter(0);
    return true;
  }
  const auto found = by_pid_.find(pid);
  if (found == by_pid_.end()) return false;
  const std::string id = found->second;
  Sandbox& sandbox = sandboxes_.at(id);
  MarkExited(sandbox, wait_status, true);
  if (sandbox.doomed) Leave(id);
  return true;
}

bool Sandboxes::OnChildStop(pid_t pid, int wait_status) {
  const auto found = by_pid_.find(pid);
  if (found == by_pid_.end()) return false;
  Sandbox& sandbox = sandboxes_.at(found->second);
  if (sandbox.stopped_status != 0) return true;
  sandbox.stopped_status = wait_status;
  LogLine(LogLevel::kWarning, "process 1 was stopped; ending the sandbox")
      .Add("sandbox", found->second)
      .Add("signal", WSTOPSIG(wait_status));
  Kill(found->second, sandbox);
  return true;
}

void Sandboxes::LookAtAdopted() {
  size_t looked = 0;
  auto next = sandboxes_.upper_bound(looked_at_);
  for (; next != sandboxes_.end(); ++next) {
    const auto& [id, sandbox] = *next;
    if (!sandbox.pidfd) continue;
    if (looked++ == kLookedAtAtOnce) break;
    looked_at_ = id;
    const auto pid = static_cast<pid_t>(sandbox.record.sandbox.pid);
    const auto stat = sys::ReadFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat", 4096);
    // proc(5): the state follows the name, which is in the last parentheses.
    const size_t name_end = stat ? stat->rfind(')') : std::string::npos;
    if (name_end == std::string::npos || stat->size() < name_end + 3) continue;
    if ((*stat)[name_end + 2] == 'T') OnChildStop(pid, (SIGSTOP << 8) | 0x7f);
  }
  if (next == sandboxes_.end()) looked_at_.clear();
  LookAtAdoptedLater();
}

void Sandboxes::LookAtAdoptedLater() {
  if (adopted_ == 0) return;
  const size_t looks = (adopted_ + kLookedAtAtOnce - 1) / kLookedAtAtOnce;
  loop_.After(kLookUs / static_cast<int64_t>(looks), [this] { LookAtAdopted(); });
}

void Sandboxes::MarkExited(Sandbox& sandbox, int wait_status, bool code_known) {
  wire::SandboxRecord& record = sandbox.record.sandbox;
  by_pid_.erase(static_cast<pid_t>(record.pid));
  if (sandbox.pidfd) {
    loop_.Unwatch(sandbox.exit_watch);
    --adopted_;
  }
  sandbox.pidfd.reset();
  record.exited = true;
  record.code_known = code_known || sandbox.stopped_status != 0;
  record.wait_status = sandbox.stopped_status != 0 ? sandbox.stopped_status : wait_status;
  // An out-of-memory kill is the cause only if process 1, or the entrypoint whose code it passes
  // on, was killed; a command that died so earlier is not.
  const bool killed = (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) ||
                      (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 128 + SIGKILL);
  // The interceptor is in no pid namespace that ended with process 1.
  const std::string group = SlotGroup(record.slot);
  if (const Status ended = host_.cgroups.KillIntercept(group); !ended) {
    LogLine(LogLevel::kError, "cannot kill an interceptor").Add("group", group).Add(ended.error());
  }
  ReadEnd(sandbox);
  record.oom_killed =
      killed && sandbox.stopped_status == 0 && sandbox.record.end.meters.events.oom_kills > 0;
  // The caller of the build is told of that end.
  if (sandbox.build_failed || sandbox.mounting) return;
  const Status recorded = ReplaceRecord(records_.get(), sandbox.record);
  if (!recorded) {
    LogLine(LogLevel::kError, "cannot write a record")
        .Add("sandbox", record.id)
        .Add(recorded.error());
  }
  if (!sandbox.doomed) exited_(record);
}

void Sandboxes::HoldLink(Sandbox& sandbox) {
  if (sandbox.record.link.empty()) return;
  const std::string path = "/proc/" + std::to_string(sandbox.record.sandbox.pid) + "/ns/net";
  // Without it, the link may go first, and what it has counted since the last sample.
  if (auto network = sys::Open(path, O_RDONLY)) sandbox.network = std::move(*network);
}

void Sandboxes::ReadLink(Record& record) const {
  if (!host_.links || record.link.empty()) return;
  const auto bytes = ReadLinkBytes(host_.links.get(), record.link);
  if (!bytes) {
    // The link may have gone before its sandbox. What was read before stays.
    if (bytes.error().code() != Code::kNotFound) {
      LogLine(LogLevel::kError, "cannot read the bytes of a link")
          .Add("sandbox", record.sandbox.id)
          .Add(bytes.error());
    }
    return;
  }
  // The host's end receives what the sandbox sends.
  record.end.bytes_in = std::max(record.end.bytes_in, bytes->sent);
  record.end.bytes_out = std::max(record.end.bytes_out, bytes->received);
}

void Sandboxes::ReadBeforeKill(Record& record) const {
  ReadLink(record);
  const auto memory = cgroup::ReadMemoryInUse(host_.cgroups.host(), host_.cgroups.path(),
                                              SlotGroup(record.sandbox.slot));
  // 0 is "not known" here, and the meter then takes its last sample.
  record.end.meters.memory_bytes = memory.value_or(0);
  // A spawner that dies after the kill leaves the reading to the next one. Without a record, the
  // build is not finished, and nobody is billed.
  if (::faccessat(records_.get(), record.sandbox.id.c_str(), F_OK, 0) != 0) return;
  if (auto written = ReplaceRecord(records_.get(), record); !written) {
    LogLine(LogLevel::kError, "cannot write a record")
        .Add("sandbox", record.sandbox.id)
        .Add(written.error());
  }
}

void Sandboxes::ReadEnd(Sandbox& sandbox) const {
  Record& record = sandbox.record;
  const uint32_t slot = record.sandbox.slot;
  const uint64_t memory_bytes = record.end.meters.memory_bytes;
  ReadLink(record);
  sandbox.network.reset();
  auto meters = cgroup::ReadMeters(host_.cgroups.host(), host_.cgroups.path(), SlotGroup(slot));
  if (!meters) {
    LogLine(LogLevel::kError, "cannot read what a sandbox has used; its last sample counts")
        .Add("sandbox", record.sandbox.id)
        .Add(meters.error());
  }
  record.end.read = meters.has_value();
  const Instant now = SystemClock().Now();
  record.end.ended_ms = now.unix_ms;
  record.end.ended_boot_ms = now.boot_ms;
  if (meters) record.end.meters = *meters;
  record.end.meters.memory_bytes = memory_bytes;
  record.end.disk_bytes = host_.store.UpperBytes(slot);
}

std::vector<wire::SlotDisk> Sandboxes::Disks() const {
  std::vector<wire::SlotDisk> disks;
  for (const auto& [id, sandbox] : sandboxes_) {
    const uint32_t slot = LiveSlot(id);
    if (slot != 0) disks.push_back({slot, host_.store.UpperBytes(slot)});
  }
  return disks;
}

bool Sandboxes::Reclaiming(Sandbox& sandbox) {
  if (sandbox.caches != Caches::kLeft) return sandbox.caches == Caches::kBeingEmptied;
  const int64_t waited_us = SystemClock().BootMicros() + kDestroyPatienceUs - sandbox.gone_by_us;
  const bool wanted = reclaims_.Wanted() && waited_us <= kReclaimPatienceUs;
  if (wanted && reclaims_.Full()) return true;
  const wire::SandboxRecord& record = sandbox.record.sandbox;
  const bool begun = wanted && reclaims_.Start(SlotGroup(record.slot), record.id);
  sandbox.caches = begun ? Caches::kBeingEmptied : Caches::kEmptied;
  return begun;
}

bool Sandboxes::TryRemove(const std::string& id) {
  Sandbox& sandbox = sandboxes_.at(id);
  if (Reclaiming(sandbox)) return false;
  const uint32_t slot = sandbox.record.sandbox.slot;
  if (in_use_ && in_use_(slot)) return false;
  Status removed = slots_->Dismantle(slot);
  // Process 1 is reaped, so the kernel has ended all others (pid_namespaces(7)). But the last may
  // not have left the group yet.
  if (!removed && removed.error().error_number() == EBUSY) return false;
  if (removed) {
    removed = sandbox.keep_reading ? ends_.Keep(records_.get(), sandbox.record)
                                   : RemoveRecord(records_.get(), id);
  }
  const std::vector<Destroyed> gone = std::exchange(sandbox.gone, {});
  const wire::Destroyed answer{sandbox.record.end};
  if (!removed) {
    // It stays known, so that the next Destroy is not told that it is gone.
    LogLine(LogLevel::kError, "cannot remove").Add("sandbox", id).Add(removed.error());
    sandbox.doomed = false;
  } else {
    for (const Gone& waiting : {sandbox.frozen, sandbox.held}) {
      if (waiting) waiting(Fail(Code::kFailedPrecondition, "the sandbox was destroyed"));
    }
    sandboxes_.erase(id);
  }
  for (const Destroyed& done : gone) {
    removed ? done(answer) : done(Fail(removed.error()));
  }
  return true;
}

void Sandboxes::SweepAfter(int64_t delay_us) {
  const int64_t due_us = SystemClock().BootMicros() + delay_us;
  if (sweep_ != 0 && sweep_due_us_ <= due_us) return;
  loop_.Cancel(sweep_);
  sweep_due_us_ = due_us;
  sweep_ = loop_.After(delay_us, [this] {
    sweep_ = 0;
    Sweep();
  });
}

void Sandboxes::Sweep() {
  bool waiting = false;
  const int64_t now_us = SystemClock().BootMicros();
  for (auto& [id, sandbox] : sandboxes_) {
    if (!sandbox.doomed) continue;
    if (now_us >= sandbox.gone_by_us) {
      for (const Destroyed& done : std::exchange(sandbox.gone, {})) {
        done(Fail(Code::kDeadlineExceeded,
                  "a killed process of the sandbox did not end within 10 seconds"));
      }
    }
    waiting = waiting || !sandbox.gone.empty();
  }
  bool removed = false;
  for (size_t left = std::min(leaving_.size(), kRemovedAtOnce); left > 0; --left) {
    const std::string id = std::move(leaving_.front());
    leaving_.pop_front();
    if (TryRemove(id)) {
      removed = true;
    } else {
      leaving_.push_back(id);
    }
  }
  if (removed && !leaving_.empty()) return SweepAfter(0);
  if (waiting || !leaving_.empty()) SweepAfter(kSweepUs);
}

std::vector<wire::SandboxRecord> Sandboxes::List() const {
  std::vector<wire::SandboxRecord> records;
  for (const auto& [id, sandbox] : sandboxes_) records.push_back(sandbox.record.sandbox);
  return records;
}

SlotSet Sandboxes::SlotsInUse() const {
  SlotSet slots;
  for (const auto& [id, sandbox] : sandboxes_) slots.set(sandbox.record.sandbox.slot);
  return slots;
}

std::vector<uint32_t> Sandboxes::FrozenSlots() const {
  std::vector<uint32_t> slots;
  for (const auto& [id, sandbox] : sandboxes_) {
    const uint32_t slot = sandbox.record.sandbox.slot;
    if (sandbox.has_holder && !sandbox.paused) continue;
    if (host_.cgroups.FreezeAsked(SlotGroup(slot)).value_or(false)) slots.push_back(slot);
  }
  return slots;
}

std::vector<uint32_t> Sandboxes::EndLoose() {
  std::vector<uint32_t> slots;
  for (const auto& [id, sandbox] : sandboxes_) {
    const wire::SandboxRecord& record = sandbox.record.sandbox;
    if (record.exited || sandbox.doomed || record.pid == 0) continue;
    // An error means that it has just ended.
    if (host_.cgroups.Holds(SlotGroup(record.slot), static_cast<pid_t>(record.pid))
            .value_or(true)) {
      continue;
    }
    LogLine(LogLevel::kError, "process 1 is not in its cgroups any more; ending the sandbox")
        .Add("sandbox", id)
        .Add("cgroup", host_.cgroups.path() + "/" + SlotGroup(record.slot));
    Kill(id, sandbox);
    slots.push_back(record.slot);
  }
  return slots;
}

bool Sandboxes::LayerInUse(wire::LayerId layer) const {
  return std::any_of(sandboxes_.begin(), sandboxes_.end(), [layer](const auto& entry) {
    const auto& layers = entry.second.record.sandbox.layers;
    return std::find(layers.begin(), layers.end(), layer) != layers.end();
  });
}

}  // namespace atl::spawner
