#include "runtime/spawner/sandboxes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/limit_policy.h"
#include "runtime/spawner/root_child.h"

namespace atl::spawner {
namespace {

using wire::Step;

// A process that sleeps deep in the kernel, on a disk for instance, stands still when that is over.
constexpr int64_t kFreezePatienceUs = 10 * 1000 * 1000;
// Nor does one such sandbox keep the daemon from having others destroyed.
constexpr int64_t kDestroyPatienceUs = 10 * 1000 * 1000;
// Of that, what a group may wait for its turn to be emptied: removal comes first.
constexpr int64_t kReclaimPatienceUs = 2 * 1000 * 1000;

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
  return CheckLimits(host_, plan.limits);
}

void Sandboxes::Build(const wire::Plan& plan, Built done) {
  BuildOutcome outcome;
  const Clock& clock = SystemClock();
  int64_t then = clock.BootMicros();
  const auto lap = [&](Step step) {
    const int64_t now = clock.BootMicros();
    At(outcome.micros, step) = static_cast<uint32_t>(now - then);
    then = now;
  };
  const auto refuse = [&](const Error& error) {
    outcome.status = Fail(error);
    outcome.step = Step::kCheck;
    done(outcome);
  };
  const Status checked = CheckPlan(plan);
  if (!checked) return refuse(checked.error());
  auto slot = slots_->Take(plan.slot);
  if (!slot) return refuse(slot.error());
  lap(Step::kCheck);

  // From here on it is a sandbox, and what fails is destroyed as one.
  Sandbox& sandbox = sandboxes_[plan.id];
  sandbox.record.sandbox.id = plan.id;
  sandbox.record.sandbox.slot = plan.slot;
  sandbox.record.sandbox.pid = static_cast<uint32_t>(slot->execd);
  sandbox.record.sandbox.layers = plan.layers;
  sandbox.record.start_time = slot->start_time;
  by_pid_[slot->execd] = plan.id;
  const auto fail = [&](Status status, Step step) {
    // The slot's execd was killed, and we have not been told yet: as if it were not prepared.
    const bool lost = status.error().error_number() == ESRCH ||  // setns
                      status.error().error_number() == EPIPE;    // its gate
    outcome.status = lost ? Status(Fail(Code::kFailedPrecondition, "the slot's execd has ended"))
                          : std::move(status);
    outcome.step = step;
    sandbox.build_failed = true;
    // Answered only when nothing of it is left.
    Destroy(plan.id, [done, outcome](const Status&) { done(outcome); });
  };
  Status limited = ChangeLimits(plan.slot, slot->limits, plan.limits);
  lap(Step::kLimits);
  if (!limited) return fail(std::move(limited), Step::kLimits);

  std::vector<VolumeSource> volumes;
  if (!plan.volumes.empty()) {
    auto opened = OpenVolumeSources(host_, plan.volumes, host_.IdBase(plan.slot));
    lap(Step::kVolumes);
    if (!opened) return fail(Fail(std::move(opened).error()), Step::kVolumes);
    volumes = std::move(*opened);
  }
  RootReport report = MountRoot(host_, plan, volumes, *slot);
  for (size_t i = 0; i < report.micros.size(); ++i) outcome.micros[i] += report.micros[i];
  if (!report.status) return fail(std::move(report.status), report.step);
  then = clock.BootMicros();
  Status opened = sys::WriteAll(slot->gate.get(), "+");
  lap(Step::kGate);
  if (!opened) return fail(std::move(opened), Step::kGate);

  // Without its record the next spawner would take the sandbox for a stray and kill it, after it
  // was acknowledged.
  Status recorded = CreateRecord(records_.get(), sandbox.record);
  lap(Step::kState);
  if (!recorded) return fail(Fail(std::move(recorded).error().Wrap("run directory")), Step::kState);
  outcome.pid = sandbox.record.sandbox.pid;
  done(outcome);
}

Status Sandboxes::ChangeLimits(uint32_t slot, const cgroup::Limits& now,
                               const cgroup::Limits& next) const {
  if (now.disk_bytes != next.disk_bytes) {
    ATOLL_TRY(host_.store.LimitUpper(slot, next.disk_bytes));
  }
  return host_.cgroups.SetLimits(SlotGroup(slot), now, next);
}

void Sandboxes::Freeze(const std::string& id, bool frozen, Gone done) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return done(Fail(Code::kNotFound, "no sandbox " + id));
  Sandbox& sandbox = found->second;
  if (const Gone waiting = std::exchange(sandbox.frozen, nullptr)) {
    waiting(Fail(Code::kFailedPrecondition, "overtaken by another request"));
  }
  Status asked = host_.cgroups.Freeze(SlotGroup(sandbox.record.sandbox.slot), frozen);
  if (!asked || !frozen) return done(std::move(asked));
  sandbox.frozen = std::move(done);
  sandbox.frozen_by_us = SystemClock().BootMicros() + kFreezePatienceUs;
  LookAtFreeze(sandbox);
}

bool Sandboxes::LookAtFreeze(Sandbox& sandbox) {
  if (!sandbox.frozen) return false;
  Status status;
  const auto frozen = host_.cgroups.Frozen(SlotGroup(sandbox.record.sandbox.slot));
  if (!frozen) {
    status = Fail(frozen.error());
  } else if (sandbox.record.sandbox.exited) {
    status = Fail(Code::kFailedPrecondition, "it has ended");
  } else if (!*frozen) {
    if (SystemClock().BootMicros() < sandbox.frozen_by_us) return true;
    status =
        Fail(Code::kDeadlineExceeded, "some process of it did not stand still within 10 seconds");
  }
  std::exchange(sandbox.frozen, nullptr)(status);
  return false;
}

void Sandboxes::Destroy(const std::string& id, Gone done) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return done({});
  Sandbox& sandbox = found->second;
  sandbox.gone.push_back(std::move(done));
  sandbox.doomed = true;
  sandbox.gone_by_us = SystemClock().BootMicros() + kDestroyPatienceUs;
  if (sandbox.record.sandbox.exited) return TryRemove(id);
  Kill(id, sandbox);
}

void Sandboxes::Kill(const std::string& id, const Sandbox& sandbox) {
  // One write kills every process of the group, forks in flight included, frozen, stopped or not
  // (Linux 5.14).
  const Status killed = host_.cgroups.Kill(SlotGroup(sandbox.record.sandbox.slot));
  if (!killed) {
    LogLine(LogLevel::kError, "cgroup.kill failed, killing process 1")
        .Add("sandbox", id)
        .Add(killed.error());
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
    Destroy(id, [left, done](const Status& destroyed) {
      if (!destroyed) left->failed = destroyed;
      if (--left->count == 0) done(left->failed);
    });
  }
}

bool Sandboxes::OnChildExit(pid_t pid, int wait_status) {
  if (const auto emptied = reclaims_.OnChildExit(pid)) {
    sandboxes_.at(*emptied).caches = Caches::kEmptied;
    TryRemove(*emptied);
    return true;
  }
  const auto found = by_pid_.find(pid);
  if (found == by_pid_.end()) return false;
  const std::string id = found->second;
  Sandbox& sandbox = sandboxes_.at(id);
  MarkExited(sandbox, wait_status, true);
  if (sandbox.doomed) TryRemove(id);
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
  for (const auto& [id, sandbox] : sandboxes_) {
    if (!sandbox.pidfd) continue;
    const auto pid = static_cast<pid_t>(sandbox.record.sandbox.pid);
    const auto stat = sys::ReadFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat", 4096);
    // proc(5): the state follows the name, which is in the last parentheses.
    const size_t name_end = stat ? stat->rfind(')') : std::string::npos;
    if (name_end == std::string::npos || stat->size() < name_end + 3) continue;
    if ((*stat)[name_end + 2] == 'T') OnChildStop(pid, (SIGSTOP << 8) | 0x7f);
  }
}

void Sandboxes::MarkExited(Sandbox& sandbox, int wait_status, bool code_known) {
  wire::SandboxRecord& record = sandbox.record.sandbox;
  by_pid_.erase(static_cast<pid_t>(record.pid));
  if (sandbox.pidfd) {
    poller_.Remove(sandbox.pidfd.get());
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
  const auto usage = host_.cgroups.ReadUsage(SlotGroup(record.slot));
  record.oom_killed = killed && sandbox.stopped_status == 0 && usage && usage->oom_kills > 0;
  if (sandbox.build_failed || sandbox.doomed) return;
  const Status recorded = ReplaceRecord(records_.get(), sandbox.record);
  if (!recorded)
    LogLine(LogLevel::kError, "cannot record").Add("sandbox", record.id).Add(recorded.error());
  exited_(record);
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

void Sandboxes::TryRemove(const std::string& id) {
  Sandbox& sandbox = sandboxes_.at(id);
  if (Reclaiming(sandbox)) return;  // Sweep comes back
  const uint32_t slot = sandbox.record.sandbox.slot;
  Status removed = slots_->Dismantle(slot);
  // Process 1 is reaped, so the kernel has ended all others (pid_namespaces(7)), but the last may
  // still be on its way out of the group: Sweep comes back.
  if (!removed && removed.error().error_number() == EBUSY) return;
  if (removed) removed = RemoveRecord(records_.get(), id);
  const std::vector<Gone> gone = std::exchange(sandbox.gone, {});
  if (!removed) {
    // It stays known, so that whoever asks again does not hear that it is gone.
    LogLine(LogLevel::kError, "cannot remove").Add("sandbox", id).Add(removed.error());
    sandbox.doomed = false;
  } else {
    if (sandbox.frozen) sandbox.frozen(Fail(Code::kFailedPrecondition, "it was destroyed"));
    sandboxes_.erase(id);
  }
  for (const Gone& done : gone) done(removed);
}

bool Sandboxes::Sweep() {
  std::vector<std::string> exited;
  bool more = false;
  const int64_t now_us = SystemClock().BootMicros();
  for (auto& [id, sandbox] : sandboxes_) {
    more = LookAtFreeze(sandbox) || more;
    if (!sandbox.doomed) continue;
    if (sandbox.record.sandbox.exited) exited.push_back(id);
    if (now_us >= sandbox.gone_by_us) {
      for (const Gone& done : std::exchange(sandbox.gone, {})) {
        done(Fail(Code::kDeadlineExceeded,
                  "some process of it has been killed and did not end within 10 seconds"));
      }
    }
    more = more || !sandbox.gone.empty();
  }
  for (const std::string& id : exited) TryRemove(id);
  return more || std::any_of(exited.begin(), exited.end(),
                             [this](const std::string& id) { return sandboxes_.count(id) != 0; });
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
    if (host_.cgroups.FreezeAsked(SlotGroup(slot)).value_or(false)) slots.push_back(slot);
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
