#include "runtime/sandbox/recovery/reconciler.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/wire/output.h"

namespace atl::sandbox {
namespace {

// Sandboxes that one line of the log lists.
constexpr size_t kIdsOfALine = 25;

}  // namespace

Status Reconciler::Start(const wire::Greeting& hello) {
  // Called before the first record can be removed.
  ATOLL_TRY(parts_.registry.Open(parts_.store.db()));
  // Loaded before the sandboxes, because they are counted for their pools.
  ATOLL_TRY(parts_.pools.Load());
  ATOLL_TRY(parts_.templates.Load());
  ATOLL_ASSIGN(std::vector<Sandbox> recorded, parts_.store.Load());
  for (Sandbox& record : recorded) {
    // The record says that the member is the host's. Its network is the tenant's, see
    // Check::Member.
    if (record.stocked) {
      record.spec.network.tenant = parts_.templates.TenantOf(record.spec.template_id);
    }
    Sandbox& sandbox = parts_.registry.Add(std::move(record));
    if (sandbox.state == State::kReplacing) parts_.rollbacks.Adopt(sandbox);
    parts_.room.Hold(sandbox);
    if (Holds(sandbox.state)) parts_.layers.Hold(sandbox.layers);
    if (CountsForOrigin(sandbox.state)) parts_.pools.Hold(sandbox);
    parts_.volumes.Adopt(sandbox.id, sandbox.spec.volumes);
    IsLeaving(sandbox.state) ? parts_.volumes.Leave(sandbox.id)
                             : parts_.expiry.SetDeadline(sandbox);
  }
  parts_.volumes.Start();
  StartDiagnostics();
  ATOLL_TRY(parts_.attempts.Load());
  // Called before the pool makes sockets of new slots.
  RemoveStaleSockets();
  Reconcile(hello);
  GiveUpPending(hello);
  parts_.templates.AdoptMembers();
  for (const auto& [id, sandbox] : parts_.registry) parts_.pauses.WatchIdle(sandbox);
  CompareLater();
  return {};
}

void Reconciler::OnExit(const wire::SandboxRecord& record) {
  // Nothing has been started yet in a version that a rollback builds.
  if (parts_.rollbacks.KeepExit(record)) return;
  Sandbox* const sandbox = parts_.registry.ByHost(record.id);
  sandbox != nullptr ? parts_.endings.Exited(*sandbox, record) : parts_.pools.Lost(record.id);
}

void Reconciler::StartDiagnostics() {
  if (auto kept = parts_.history.RemoveStrays(); !kept) {
    LogLine(LogLevel::kWarning, "cannot clean up the events").Add(kept.error());
  }
  parts_.logs.OnNote([this](const std::string& host_id, const std::string& text) {
    const Sandbox* const sandbox = parts_.registry.ByHost(host_id);
    if (sandbox == nullptr) return;
    const bool of_pids = text == wire::kPidsLimitNote;
    HistoryEvent event{parts_.clock.UnixMillis(), of_pids ? kPidsLimit : kOutOfMemory,
                       of_pids ? "PIDS_LIMIT" : "OUT_OF_MEMORY", text};
    parts_.history.Add(*sandbox, std::move(event));
  });
  // Without the list of the history no log can be removed.
  auto logs = parts_.departures.Logs();
  if (logs) {
    for (const auto& [id, sandbox] : parts_.registry) logs->insert(HostId(sandbox));
  }
  const Status started = logs ? parts_.logs.Start(*logs) : Status(Fail(std::move(logs).error()));
  if (!started) {
    LogLine(LogLevel::kError, "no output of sandboxes is kept").Add(started.error());
  }
  parts_.departures.Start();
}

void Reconciler::GiveUpPending(const wire::Greeting& hello) {
  std::vector<std::string> pending;
  for (const auto& [id, sandbox] : parts_.registry) {
    if (sandbox.state == State::kAwaiting) pending.push_back(id);
  }
  for (const std::string& id : pending) {
    Sandbox& sandbox = *parts_.registry.Look(id);
    // The build may have begun; no record says so.
    const auto found =
        std::find_if(hello.sandboxes.begin(), hello.sandboxes.end(),
                     [&id](const wire::SandboxRecord& record) { return record.id == id; });
    const bool begun = found != hello.sandboxes.end();
    if (begun) sandbox.slot = found->slot;
    parts_.machine.ApplyAnyway(
        sandbox, begun ? Event::kUnfinished : Event::kGivenUp,
        {"PROVISIONING_ERROR",
         "the daemon ended while the image was imported; import it and create another"});
  }
}

RecoveryPlan Reconciler::PlanFor(const wire::Greeting& hello) const {
  std::vector<const Sandbox*> recorded;
  for (const auto& [id, sandbox] : parts_.registry) recorded.push_back(&sandbox);
  for (const Sandbox* const coming : parts_.rollbacks.Coming()) recorded.push_back(coming);
  return PlanRecovery(recorded, hello);
}

void Reconciler::KeepRules() {
  const auto kept = [](const Status& status) {
    // kUnavailable: the next spawner is asked.
    if (status || status.error().code() == Code::kUnavailable) return;
    LogLine(LogLevel::kError, "the spawner does not keep the network rules").Add(status.error());
  };
  auto socket = launch::Copy(parts_.network.rules_socket());
  if (!socket) return kept(Fail(std::move(socket).error()));
  parts_.spawner.Ask(wire::KeepRules{std::move(*socket)}, kept);
}

void Reconciler::Reconcile(const wire::Greeting& hello) {
  ticks_without_spawner_ = 0;
  // Orders to the former spawner get no answer but the loss of its connection.
  parts_.orphans.Forget();
  // Members have no record, so PlanFor treats them as orphans.
  parts_.pools.Reset();
  std::vector<uint32_t> slots = OwnedSlots();
  const RecoveryPlan plan = PlanFor(hello);
  if (auto recovered = parts_.network.Recover(LiveSlots(plan.live_slots)); !recovered) {
    LogLine(LogLevel::kError, "cannot clean up the network").Add(recovered.error());
  }
  KeepRules();
  parts_.volumes.RemoveAgain();
  slots.insert(slots.end(), plan.live_slots.begin(), plan.live_slots.end());
  parts_.slots.Reset(slots, hello.prepared_slots);
  for (const std::string& id : plan.adopted) {
    parts_.logs.Adopt(parts_.registry.HostIdOf(id), parts_.registry.SocketPathOf(id),
                      parts_.registry.Look(id)->access_token);
  }
  // Repeats an interrupted freeze or thaw. A repeated order does no harm.
  for (const std::string& id : plan.adopted) {
    Sandbox& sandbox = *parts_.registry.Look(id);
    if (sandbox.state == State::kPausing) parts_.pauses.Ask(sandbox, true);
    if (sandbox.state == State::kResuming) parts_.pauses.Ask(sandbox, false);
  }
  CarryOut(plan);
  // The former spawner may have reclaimed a part of the memory. The new one reports that again, or
  // reclaims now.
  for (const std::string& id : plan.adopted) {
    const Sandbox* const sandbox = parts_.registry.Look(id);
    if (sandbox != nullptr && sandbox->state == State::kPaused) parts_.pauses.AskReclaim(*sandbox);
  }
  // Includes layers that the former spawner was asked to remove.
  parts_.layers.Collect();
  parts_.rollbacks.FormersGone();
  LogLine(LogLevel::kInfo, "sandboxes reconciled with the host")
      .Add("adopted", static_cast<uint64_t>(plan.adopted.size()))
      .Add("ended", static_cast<uint64_t>(plan.exited.size()))
      .Add("lost", static_cast<uint64_t>(plan.vanished.size()))
      .Add("unfinished", static_cast<uint64_t>(plan.unfinished.size()))
      .Add("orphans", static_cast<uint64_t>(plan.orphans.size()));
}

void Reconciler::CarryOut(const RecoveryPlan& plan) {
  for (const wire::SandboxRecord& record : plan.exited) OnExit(record);
  for (const std::string& id : plan.vanished) {
    parts_.machine.ApplyAnyway(
        *parts_.registry.Look(id), Event::kVanished,
        {kSandboxLost,
         "the sandbox was lost: it has no processes since the host or the spawner "
         "restarted"});
  }
  for (size_t first = 0; first < plan.vanished.size(); first += kIdsOfALine) {
    std::string ids;
    const size_t end = std::min(plan.vanished.size(), first + kIdsOfALine);
    for (size_t i = first; i < end; ++i) ids += (ids.empty() ? "" : " ") + plan.vanished[i];
    LogLine(LogLevel::kWarning, "sandboxes were lost: the host or the spawner has restarted")
        .Add("count", static_cast<uint64_t>(end - first))
        .Add("sandboxes", ids);
  }
  for (const std::string& id : plan.unfinished) {
    Sandbox& sandbox = *parts_.registry.Look(id);
    parts_.endings.ForgetRelease(sandbox);
    parts_.machine.ApplyAnyway(sandbox, Event::kUnfinished, {});
  }
  for (const std::string& id : plan.frozen) parts_.pauses.Ask(*parts_.registry.Look(id), false);
  for (const std::string& id : plan.thawed) parts_.pauses.Ask(*parts_.registry.Look(id), true);
  for (const wire::SandboxRecord& record : plan.orphans)
    parts_.orphans.Destroy(record.id, record.slot);
}

std::vector<uint32_t> Reconciler::OwnedSlots() const {
  std::vector<uint32_t> slots;
  for (const auto& [id, sandbox] : parts_.registry) {
    if (sandbox.slot != 0) slots.push_back(sandbox.slot);
  }
  for (const Sandbox* const coming : parts_.rollbacks.Coming()) {
    if (coming->slot != 0) slots.push_back(coming->slot);
  }
  for (const uint32_t slot : parts_.orphans.Slots()) slots.push_back(slot);
  for (const uint32_t slot : parts_.pools.Slots()) slots.push_back(slot);
  return slots;
}

std::vector<netpolicy::LiveSlot> Reconciler::LiveSlots(const std::vector<uint32_t>& numbers) const {
  std::unordered_map<uint32_t, const Sandbox*> owners;
  for (const auto& [id, sandbox] : parts_.registry) {
    if (sandbox.slot != 0) owners.emplace(sandbox.slot, &sandbox);
  }
  for (const Sandbox* const coming : parts_.rollbacks.Coming()) {
    if (coming->slot != 0) owners.emplace(coming->slot, coming);
  }
  std::vector<netpolicy::LiveSlot> live;
  for (const uint32_t number : numbers) {
    netpolicy::LiveSlot& one = live.emplace_back();
    one.slot = number;
    const auto owner = owners.find(number);
    if (owner != owners.end()) {
      one.request = owner->second->spec.network;
    } else {
      // Nobody owns the slot, so its link reaches nothing until it is removed.
      one.request.policy = netpolicy::Share({});
    }
  }
  return live;
}

void Reconciler::RemoveStaleSockets() const {
  auto directory = sys::Open(parts_.registry.socket_directory(), O_RDONLY | O_DIRECTORY);
  auto names = directory ? sys::ListDir(directory->get())
                         : Result<std::vector<std::string>>(Fail(std::move(directory).error()));
  if (!names) {
    LogLine(LogLevel::kWarning, "cannot look for stale sockets").Add(names.error());
    return;
  }
  std::unordered_set<std::string> live;
  for (const auto& [id, sandbox] : parts_.registry) {
    if (IsLive(sandbox.state)) live.insert(HostId(sandbox) + ".sock");
  }
  for (const std::string& name : *names) {
    if (!live.contains(name)) ::unlinkat(directory->get(), name.c_str(), 0);
  }
}

void Reconciler::Shutdown(std::function<void(Status)> done) {
  parts_.attempts.Stop();
  parts_.pools.Stop();
  parts_.templates.Stop();
  parts_.spawner.Ask(wire::Stop(), [this, done = std::move(done)](Status stopped) {
    for (auto& [id, sandbox] : parts_.registry) parts_.endings.LeaveByShutdown(sandbox);
    // If a step fails, the other steps still run, and the error is reported.
    Status removed = parts_.network.RemoveAll();
    Status forgotten = parts_.store.RemoveAll();
    std::vector<std::shared_ptr<Attempt>> attempts = parts_.rollbacks.TakeAll();
    for (const auto& [id, sandbox] : parts_.registry) {
      parts_.waiters.Settle(sandbox, Fail(ShuttingDown()));
      if (auto attempt = parts_.machine.TakeAttempt(sandbox)) {
        attempts.push_back(std::move(attempt));
      }
    }
    parts_.registry.Clear();
    parts_.pools.Reset();
    parts_.layers.Clear();
    parts_.room.Clear();
    RemoveStaleSockets();
    // The shutdown has ended their sandboxes, so there is nothing to take back.
    for (const auto& attempt : attempts) attempt->Fail(CreateError(ShuttingDown()));
    if (!stopped) return done(Fail(std::move(stopped).error().Wrap("stop the spawner")));
    if (!removed) return done(Fail(std::move(removed).error().Wrap("remove the network")));
    if (!forgotten) return done(Fail(std::move(forgotten).error().Wrap("empty the store")));
    done({});
  });
}

}  // namespace atl::sandbox
