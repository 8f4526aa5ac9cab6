// Start, reconnection and the end: where records and host are made to agree.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// Sandboxes that one line of the log lists.
constexpr size_t kIdsOfALine = 25;

}  // namespace

Status Lifecycle::Start(const wire::Greeting& hello) {
  // Before the first record can be removed.
  ATOLL_ASSIGN(gone_, GoneIds::Open(store_.db()));
  // Before the sandboxes that it counts.
  ATOLL_TRY(pools_.Load());
  ATOLL_TRY(templates_.Load());
  ATOLL_ASSIGN(std::vector<Sandbox> recorded, store_.Load());
  for (Sandbox& sandbox : recorded) {
    Entry& kept = entries_[sandbox.id];
    kept.sandbox = std::move(sandbox);
    names_.Add(kept.sandbox);
    if (!kept.sandbox.host_id.empty()) host_ids_[kept.sandbox.host_id] = kept.sandbox.id;
    if (kept.sandbox.state == State::kReplacing) {
      BeginAnew(kept.sandbox);
      kept.former.emplace();
    }
    if (Holds(kept.sandbox.state)) Hold(kept.sandbox);
    if (CountsForOrigin(kept.sandbox.state)) pools_.Hold(kept.sandbox);
    volumes_.Adopt(kept.sandbox.id, kept.sandbox.spec.volumes);
    IsLeaving(kept.sandbox.state) ? volumes_.Leave(kept.sandbox.id) : SetDeadline(kept);
  }
  volumes_.Start();
  StartDiagnostics();
  ATOLL_ASSIGN(std::vector<KeyRecord> keys, store_.LoadKeys());
  idempotency_.Load(std::move(keys));
  // Before the pool makes those of new slots.
  RemoveStaleSockets();
  Reconcile(hello);
  GiveUpPending(hello);
  AdoptMembers();
  for (const auto& [id, entry] : entries_) WatchIdle(entry, State::kAcquiring);
  CompareLater();
  return {};
}

void Lifecycle::StartDiagnostics() {
  std::unordered_set<std::string> ids;
  std::unordered_set<std::string> host_ids;
  for (const auto& [id, entry] : entries_) {
    ids.insert(id);
    host_ids.insert(HostId(entry.sandbox));
  }
  if (auto kept = history_.KeepOnly(ids); !kept) {
    LogLine(LogLevel::kWarning, "cannot clean up the history").Add(kept.error());
  }
  logs_.OnNote([this](const std::string& host_id, const std::string& text) {
    const Entry* entry = LookHost(host_id);
    if (entry == nullptr) return;
    const bool of_pids = text == wire::kPidsLimitNote;
    HistoryEvent event{clock_.UnixMillis(), of_pids ? kPidsLimit : kOutOfMemory,
                       of_pids ? "PIDS_LIMIT" : "OUT_OF_MEMORY", text};
    // One that is on its way out keeps no history, and is followed all the same.
    IsLeaving(entry->sandbox.state) ? history_.Tell(entry->sandbox.id, std::move(event))
                                    : history_.Add(entry->sandbox.id, std::move(event));
  });
  if (auto started = logs_.Start(host_ids); !started) {
    LogLine(LogLevel::kError, "no output of sandboxes is kept").Add(started.error());
  }
}

void Lifecycle::GiveUpPending(const wire::Greeting& hello) {
  std::vector<std::string> pending;
  for (const auto& [id, entry] : entries_) {
    if (entry.sandbox.state == State::kAwaiting) pending.push_back(id);
  }
  for (const std::string& id : pending) {
    Entry& entry = *Look(id);
    // Its build may have begun, which no record says.
    const auto found =
        std::find_if(hello.sandboxes.begin(), hello.sandboxes.end(),
                     [&id](const wire::SandboxRecord& record) { return record.id == id; });
    const bool begun = found != hello.sandboxes.end();
    if (begun) entry.sandbox.slot = found->slot;
    ApplyAnyway(entry, begun ? Event::kUnfinished : Event::kGivenUp,
                {"PROVISIONING_ERROR",
                 "the daemon ended while the image was imported; import it and create another"});
  }
}

RecoveryPlan Lifecycle::PlanFor(const wire::Greeting& hello) const {
  std::vector<const Sandbox*> recorded;
  for (const auto& [id, entry] : entries_) recorded.push_back(&entry.sandbox);
  for (const auto& [host_id, rollback] : rollbacks_) recorded.push_back(&rollback.next);
  return PlanRecovery(recorded, hello);
}

void Lifecycle::KeepRules() {
  const auto kept = [](const Status& status) {
    // Unavailable: the next spawner is asked.
    if (status || status.error().code() == Code::kUnavailable) return;
    LogLine(LogLevel::kError, "the spawner does not keep the network rules").Add(status.error());
  };
  auto socket = launch::Copy(network_.rules_socket());
  if (!socket) return kept(Fail(std::move(socket).error()));
  spawner_.Ask(wire::KeepRules{std::move(*socket)}, kept);
}

void Lifecycle::Reconcile(const wire::Greeting& hello) {
  ticks_without_spawner_ = 0;
  // What was asked of another spawner is answered, if at all, by its loss.
  orphans_.clear();
  // Members have no record, and are orphans to what follows.
  pools_.Reset();
  std::vector<uint32_t> slots = OwnedSlots();
  const RecoveryPlan plan = PlanFor(hello);
  if (auto recovered = network_.Recover(LiveSlots(plan.live_slots)); !recovered) {
    LogLine(LogLevel::kError, "cannot clean up the network").Add(recovered.error());
  }
  KeepRules();
  volumes_.RemoveAgain();
  slots.insert(slots.end(), plan.live_slots.begin(), plan.live_slots.end());
  slots_.Reset(slots, hello.prepared_slots);
  for (const std::string& id : plan.adopted) {
    logs_.Adopt(HostIdOf(id), SocketPathOf(id), Look(id)->sandbox.access_token);
  }
  // A pause that was cut off is finished, and so is its end: asking twice does no harm.
  for (const std::string& id : plan.adopted) {
    Entry& entry = *Look(id);
    if (entry.sandbox.state == State::kPausing) AskFreeze(entry, true);
    if (entry.sandbox.state == State::kResuming) AskFreeze(entry, false);
  }
  CarryOut(plan);
  // What the one before has done of it is told again, and what not is done now.
  for (const std::string& id : plan.adopted) {
    const Entry* const entry = Look(id);
    if (entry != nullptr && entry->sandbox.state == State::kPaused) AskReclaim(*entry);
  }
  // Those too that the one before was asked to remove.
  images_.CollectLayers([this](wire::LayerId layer) { return LayerInUse(layer); });
  FormersGone();
  LogLine(LogLevel::kInfo, "sandboxes reconciled with the host")
      .Add("adopted", static_cast<uint64_t>(plan.adopted.size()))
      .Add("ended", static_cast<uint64_t>(plan.exited.size()))
      .Add("lost", static_cast<uint64_t>(plan.vanished.size()))
      .Add("unfinished", static_cast<uint64_t>(plan.unfinished.size()))
      .Add("orphans", static_cast<uint64_t>(plan.orphans.size()));
}

void Lifecycle::CarryOut(const RecoveryPlan& plan) {
  for (const wire::SandboxRecord& record : plan.exited) OnExit(record);
  for (const std::string& id : plan.vanished) {
    ApplyAnyway(*Look(id), Event::kVanished,
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
    Entry& entry = *Look(id);
    entry.releasing = 0;
    entry.release_asked_us = 0;
    ApplyAnyway(entry, Event::kUnfinished, {});
  }
  for (const std::string& id : plan.frozen) AskFreeze(*Look(id), false);
  for (const std::string& id : plan.thawed) AskFreeze(*Look(id), true);
  for (const wire::SandboxRecord& record : plan.orphans) DestroyOrphan(record);
}

std::vector<uint32_t> Lifecycle::OwnedSlots() const {
  std::vector<uint32_t> slots;
  for (const auto& [id, entry] : entries_) {
    if (entry.sandbox.slot != 0) slots.push_back(entry.sandbox.slot);
  }
  for (const auto& [host_id, rollback] : rollbacks_) {
    if (rollback.next.slot != 0) slots.push_back(rollback.next.slot);
  }
  for (const auto& [id, slot] : orphans_) slots.push_back(slot);
  for (const uint32_t slot : pools_.Slots()) slots.push_back(slot);
  return slots;
}

std::vector<netpolicy::LiveSlot> Lifecycle::LiveSlots(const std::vector<uint32_t>& numbers) const {
  std::unordered_map<uint32_t, const Sandbox*> owners;
  for (const auto& [id, entry] : entries_) {
    if (entry.sandbox.slot != 0) owners.emplace(entry.sandbox.slot, &entry.sandbox);
  }
  for (const auto& [host_id, rollback] : rollbacks_) {
    if (rollback.next.slot != 0) owners.emplace(rollback.next.slot, &rollback.next);
  }
  std::vector<netpolicy::LiveSlot> live;
  for (const uint32_t number : numbers) {
    netpolicy::LiveSlot& one = live.emplace_back();
    one.slot = number;
    const auto owner = owners.find(number);
    if (owner != owners.end()) {
      one.request = owner->second->spec.network;
    } else {
      one.request.policy = netpolicy::Share({});  // nobody's: it reaches nothing until it is gone
    }
  }
  return live;
}

void Lifecycle::DestroyOrphan(const wire::SandboxRecord& record) {
  orphans_[record.id] = record.slot;
  ::unlink(SocketPath(config_.socket_directory, record.id).c_str());
  spawner_.Ask(wire::Destroy{record.id}, [this, id = record.id, slot = record.slot](Status status) {
    if (status) {
      if (orphans_.erase(id) != 0 && slot != 0) slots_.Release(slot);
      // What it stood on nobody else may have.
      images_.CollectLayers([this](wire::LayerId layer) { return LayerInUse(layer); });
      return FormersGone();
    }
    orphans_.erase(id);
    // The next spawner is asked by Reconcile.
    if (status.error().code() == Code::kUnavailable) return;
    // The next look finds it again.
    LogLine(LogLevel::kError, "cannot destroy a sandbox that has no record")
        .Add("sandbox", id)
        .Add(status.error());
    // Its processes have been killed, and run no more.
    FormersGone();
  });
}

void Lifecycle::RemoveStaleSockets() const {
  auto directory = sys::Open(config_.socket_directory, O_RDONLY | O_DIRECTORY);
  auto names = directory ? sys::ListDir(directory->get())
                         : Result<std::vector<std::string>>(Fail(std::move(directory).error()));
  if (!names) {
    LogLine(LogLevel::kWarning, "cannot look for stale sockets").Add(names.error());
    return;
  }
  std::unordered_set<std::string> live;
  for (const auto& [id, entry] : entries_) {
    if (IsLive(entry.sandbox.state)) live.insert(HostId(entry.sandbox) + ".sock");
  }
  for (const std::string& name : *names) {
    if (!live.contains(name)) ::unlinkat(directory->get(), name.c_str(), 0);
  }
}

void Lifecycle::Shutdown(std::function<void(Status)> done) {
  stopping_ = true;
  pools_.Stop();
  templates_.Stop();
  spawner_.Ask(wire::Stop(), [this, done = std::move(done)](Status stopped) {
    // What fails here is said, the rest is done all the same.
    Status removed = network_.RemoveAll();
    Status forgotten = store_.RemoveAll();
    logs_.RemoveAll();
    history_.RemoveAll();
    const Error over(Code::kUnavailable, "atolld is shutting down");
    std::vector<SharedAttempt> attempts;
    for (auto& [id, entry] : entries_) {
      Settle(entry, Fail(over));
      if (entry.attempt) attempts.push_back(std::move(entry.attempt));
    }
    for (const auto& [host_id, rollback] : std::exchange(rollbacks_, {})) {
      attempts.push_back(rollback.attempt);
    }
    entries_.clear();
    names_.Clear();
    pools_.Reset();
    host_ids_.clear();
    layer_users_.clear();
    held_ = {};
    RemoveStaleSockets();
    // The shutdown has ended their sandboxes, so there is nothing to take back.
    for (const SharedAttempt& attempt : attempts) attempt->Fail(CreateError(over));
    if (!stopped) return done(Fail(std::move(stopped).error().Wrap("stop the spawner")));
    if (!removed) return done(Fail(std::move(removed).error().Wrap("remove the network")));
    if (!forgotten) return done(Fail(std::move(forgotten).error().Wrap("empty the store")));
    done({});
  });
}

}  // namespace atl::sandbox
