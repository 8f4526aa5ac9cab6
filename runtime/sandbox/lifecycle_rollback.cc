// Rollbacks: a sandbox gets the files of a snapshot and keeps all else but its processes.
//
// What it is to be is built beside it, from the snapshot's layers and under another host id, while
// it goes on; nothing in there is started. Then one record is written, and the sandbox is that: its
// former self is destroyed, and when that has gone the entrypoint starts, so that two of them never
// have the same volumes, locks and names at once. Before that record all that there is of the new
// one is an orphan, after it all that there is of the old one is: who dies in between leaves
// the one or the other, and what is left over is destroyed as orphans are.
//
// A daemon that dies after the record and before the start takes the new one's start message along.
// Nothing was written there, so the next daemon builds it once more.
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "images/allowed.h"
#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/create/slot_sockets.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kAgainUs = 1'000'000;

Error Ended(const std::string& id) {
  return Error(Code::kFailedPrecondition, "sandbox " + id + " has ended meanwhile");
}

// Its rollback is recorded, and its entrypoint has not started yet.
bool IsRolledBackLater(const Sandbox& sandbox) {
  using enum State;
  return !sandbox.host_id.empty() &&
         (sandbox.state == kReplacing || sandbox.state == kQueued || sandbox.state == kBuilding);
}

}  // namespace

void Lifecycle::RollBack(const std::string& id, const WantedRollback& wanted, const Created& done) {
  // A rollback that is recorded may still have to start.
  const Attempt::Answered answered = [this, done](const Attempt::Outcome& outcome) {
    Entry* const entry = outcome ? Look(outcome->front()) : nullptr;
    if (entry == nullptr || !IsRolledBackLater(entry->sandbox)) return AnswerOf(done)(outcome);
    entry->settled.push_back([this, done, ids = *outcome](const Status& runs) {
      if (runs) return AnswerOf(done)(ids);
      done(tl::unexpected(CreateError(runs.error())));
    });
  };
  if (JoinRollback(id, wanted, answered)) return;
  const SharedAttempt attempt = NewAttempt({.kind = Attempt::Kind::kRollback,
                                            .key = wanted.idempotency_key,
                                            .fingerprint = wanted.fingerprint,
                                            .request_id = wanted.request_id,
                                            .of = id},
                                           answered);
  if (attempt == nullptr) return;
  auto next = CheckRollback(id, wanted.snapshot_id);
  if (!next) return attempt->Fail(next.error());
  const std::string host_id = next->host_id;
  attempt->Take(id);
  Rollback& rollback = rollbacks_[host_id];
  rollback.snapshot_id = wanted.snapshot_id;
  rollback.next = std::move(*next);
  rollback.attempt = attempt;
  HoldLayers(rollback.next);
  rollback.use = Use(id);
  GiveWay();
  rollback.launch = std::make_shared<Launch>(
      launch_parts_, Launch::Order{.id = host_id, .request_id = wanted.request_id, .start = false});
  // Which may fail at once.
  const std::shared_ptr<Launch> launch = rollback.launch;
  launch->Enqueue();
}

bool Lifecycle::JoinRollback(const std::string& id, const WantedRollback& wanted,
                             const Attempt::Answered& answered) {
  // A key that nobody has recorded is that of another request.
  if (stopping_ || !wanted.idempotency_key.empty()) return false;
  for (const auto& [host_id, rollback] : rollbacks_) {
    if (rollback.next.id != id || rollback.snapshot_id != wanted.snapshot_id) continue;
    rollback.attempt->Join(answered);
    return true;
  }
  const Entry* const entry = Look(id);
  if (entry == nullptr || !IsRolledBackLater(entry->sandbox)) return false;
  const auto snapshot = snapshots_.Usable(wanted.snapshot_id);
  if (!snapshot || snapshot->layers != entry->sandbox.layers) return false;
  answered(std::vector{id});
  return true;
}

tl::expected<Sandbox, CreateError> Lifecycle::CheckRollback(const std::string& id,
                                                            const std::string& snapshot_id) {
  const auto refuse = [](Error error) { return tl::unexpected(CreateError(std::move(error))); };
  const auto entry = Visible(id);
  if (!entry) return refuse(entry.error());
  const Sandbox& now = (*entry)->sandbox;
  if (Next(now.state, Event::kRolledBack).action == Action::kRefuse) {
    return refuse(Error(Code::kFailedPrecondition,
                        "sandbox " + id + " is " + std::string(StateName(now.state)) +
                            ": one that runs or is paused can be rolled back"));
  }
  const bool under_way = std::any_of(rollbacks_.begin(), rollbacks_.end(),
                                     [&](const auto& one) { return one.second.next.id == id; });
  if (under_way) {
    return refuse(Error(Code::kFailedPrecondition,
                        "sandbox " + id + " is being rolled back by another request"));
  }
  if (Status known = objects_.Check(now); !known) return refuse(std::move(known).error());
  auto usable = snapshots_.Usable(snapshot_id);
  if (usable && usable->image_digest != now.image_digest) {
    usable = Fail(Code::kInvalidArgument, "snapshot " + snapshot_id + " is of image " +
                                              usable->image + ", sandbox " + id + " of " +
                                              now.spec.image + ": create another sandbox from it");
  }
  if (!usable) {
    CreateError refused(std::move(usable).error());
    refused.snapshot = true;
    return tl::unexpected(std::move(refused));
  }
  Status allowed = images::CheckAllowed(config_.allowed_images, now.spec.image, now.image_digest);
  if (!allowed) {
    CreateError refused(std::move(allowed).error());
    refused.image = true;
    return tl::unexpected(std::move(refused));
  }
  // Its room on the host is the one that it has: of the two only one has processes that do
  // anything.
  Sandbox next = now;
  next.host_id = NewSandboxId();
  next.layers = std::move(usable->layers);
  next.slot = 0;
  next.state = State::kQueued;
  return next;
}

Rollback* Lifecycle::FindRollback(const std::string& host_id) {
  const auto found = rollbacks_.find(host_id);
  return found == rollbacks_.end() ? nullptr : &found->second;
}

Result<const Sandbox*> Lifecycle::BeginRollback(Rollback& rollback, uint32_t slot) {
  const Entry* entry = Look(rollback.next.id);
  if (entry == nullptr || !IsLive(entry->sandbox.state)) return Fail(Ended(rollback.next.id));
  netpolicy::SlotRequest& network = rollback.next.spec.network;
  network.policy = rollback.claimed = entry->sandbox.spec.network.policy;
  ATOLL_TRY(network_.ClaimSlot(slot, network));
  rollback.next.slot = slot;
  rollback.next.state = State::kBuilding;
  return &rollback.next;
}

void Lifecycle::DropRollback(const Attempt& attempt) {
  const auto found = std::find_if(rollbacks_.begin(), rollbacks_.end(), [&](const auto& one) {
    return one.second.attempt.get() == &attempt;
  });
  if (found == rollbacks_.end()) return;
  const auto node = rollbacks_.extract(found);
  const std::string& host_id = node.key();
  const Sandbox& next = node.mapped().next;
  DropLayers(next);
  if (next.slot != 0) {
    wire::SandboxRecord record;
    record.id = host_id;
    record.slot = next.slot;
    DestroyOrphan(record);
  } else {
    ::unlink(SocketPath(config_.socket_directory, host_id).c_str());
  }
}

void Lifecycle::RollbackBuilt(const std::string& host_id) {
  const auto found = rollbacks_.find(host_id);
  const SharedAttempt attempt = found->second.attempt;
  const auto fail = [&](Error error) { attempt->Fail(CreateError(std::move(error))); };
  const std::string id = found->second.next.id;
  if (stopping_) return fail(Error(Code::kUnavailable, "atolld is shutting down"));
  Entry* const entry = Look(id);
  if (entry == nullptr || !IsLive(entry->sandbox.state)) return fail(Ended(id));
  if (found->second.launch->TakeExit()) {
    return fail(Error(Code::kInternal, "execd of sandbox " + id + " has ended before its start"));
  }
  Sandbox next = entry->sandbox;
  next.host_id = host_id;
  next.layers = found->second.next.layers;
  next.slot = found->second.next.slot;
  next.spec.snapshot_id.clear();
  if (const auto& policy = next.spec.network.policy; policy != found->second.claimed) {
    auto egress = network_.MakeReady(policy);
    const Status set =
        egress ? network_.SetPolicy(next.slot, std::move(*egress)) : Fail(egress.error());
    if (!set) return fail(set.error());
  }
  Enter(next, State::kReplacing,
        {"CONTAINER_STARTING",
         "Sandbox is being rolled back to snapshot " + found->second.snapshot_id});
  if (Status recorded = store_.Replace(next, attempt->key()); !recorded) {
    return fail(std::move(recorded).error().Wrap("record the rollback"));
  }
  attempt->Commit();
  // Not before the record: a rollback that fails gives this slot to somebody else. Like the policy
  // this is whatever has been set meanwhile, and nothing runs in the slot yet.
  vaults_.Attach(id, next.slot);
  const Rollback rollback = std::move(rollbacks_.extract(found).mapped());
  ++stats_.rolled_back;
  LogLine(LogLevel::kInfo, "sandbox rolled back")
      .Add("sandbox", id)
      .Add("snapshot", rollback.snapshot_id)
      .Add("host_id", host_id)
      .Add("took_us", clock_.BootMicros() - rollback.launch->asked_us());
  const Sandbox former = std::exchange(entry->sandbox, std::move(next));
  host_ids_.erase(former.host_id);
  host_ids_[host_id] = id;
  DropLayers(former);
  Settle(*entry, Fail(Code::kFailedPrecondition, "sandbox " + id + " was rolled back meanwhile"));
  // What was asked about its former self counts no more.
  entry->freezing = ++orders_;
  entry->start_failure.reset();
  entry->stopping = false;
  entry->launch = rollback.launch;
  entry->former = {HostId(former), former.slot};
  entry->settled.push_back([attempt](const Status& settled) {
    settled ? attempt->Answer() : attempt->Fail(CreateError(settled.error()));
  });
  Entered(*entry, former.state, Action::kReplace);
}

void Lifecycle::DestroyFormer(const Entry& entry) {
  wire::SandboxRecord record;
  record.id = entry.former->host_id;
  record.slot = entry.former->slot;
  logs_.Remove(record.id, "");
  DestroyOrphan(record);
}

void Lifecycle::FormersGone() {
  std::vector<std::string> ready;
  for (const auto& [id, entry] : entries_) {
    if (!entry.former) continue;
    // Of one that an earlier daemon has rolled back it is not known which it was.
    const std::string& former = entry.former->host_id;
    if (former.empty() ? orphans_.empty() : !orphans_.contains(former)) ready.push_back(id);
  }
  for (const std::string& id : ready) {
    Entry& entry = *Look(id);
    if (entry.sandbox.state != State::kReplacing && entry.sandbox.state != State::kCancelled) {
      entry.former.reset();
      continue;
    }
    const bool again = entry.sandbox.state == State::kReplacing && entry.launch == nullptr;
    if (again) {
      entry.launch =
          std::make_shared<Launch>(launch_parts_, Launch::Order{.id = HostId(entry.sandbox)});
    }
    const Cause running{"CONTAINER_RUNNING", "Sandbox is running"};
    if (again || entry.sandbox.state == State::kCancelled) {
      entry.former.reset();
      ApplyAnyway(entry, again ? Event::kAdmitted : Event::kReplaced, again ? Cause{} : running);
    } else if (Status recorded = Apply(entry, Event::kReplaced, running); recorded) {
      entry.former.reset();
    } else {
      // By its record nothing has run in there, and a restart would build it anew: so nothing may.
      LogLine(LogLevel::kError, "cannot start what a sandbox was rolled back to; trying again")
          .Add("sandbox", id)
          .Add(recorded.error());
      loop_.After(kAgainUs, [this, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) FormersGone();
      });
    }
  }
}

void Lifecycle::BeginAnew(Sandbox& sandbox) {
  host_ids_.erase(sandbox.host_id);
  sandbox.host_id = NewSandboxId();
  sandbox.slot = 0;
  host_ids_[sandbox.host_id] = sandbox.id;
}

void Lifecycle::StartEntrypoint(Entry& entry) {
  const std::string id = entry.sandbox.id;
  const std::shared_ptr<Launch> launch = entry.launch;
  if (Status sent = launch->Start(entry.sandbox); !sent) {
    return ApplyAnyway(entry, Event::kStartFailed,
                       {"ENTRYPOINT_START_FAILED", sent.error().message()});
  }
  Settle(entry, {});
  launch->Watch();
}

}  // namespace atl::sandbox
