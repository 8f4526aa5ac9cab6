#include "runtime/sandbox/copies/rollbacks.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kAgainUs = 1'000'000;

Error Ended(const std::string& id) {
  return Error(Code::kFailedPrecondition, "sandbox " + id + " has ended meanwhile");
}

// Returns true if the rollback is recorded and the entrypoint has not started yet.
bool IsRolledBackLater(const Sandbox& sandbox) {
  using enum State;
  return !sandbox.host_id.empty() &&
         (sandbox.state == kReplacing || sandbox.state == kQueued || sandbox.state == kBuilding);
}

}  // namespace

class Rollbacks::Build final : public Launch {
 public:
  Build(Rollbacks& rollbacks, Sandbox to_be, const WantedRollback& wanted,
        std::shared_ptr<Attempt> its_attempt)
      : Launch(rollbacks.parts_.launch, Order{.host_id = to_be.host_id,
                                              .tenant = to_be.tenant,
                                              .request_id = wanted.request_id,
                                              .start = false}),
        snapshot_id(wanted.snapshot_id),
        next(std::move(to_be)),
        attempt(std::move(its_attempt)),
        rollbacks_(rollbacks) {}

  const std::string snapshot_id;
  Sandbox next;                      // only its host id, layers and slot are used
  netpolicy::SharedPolicy claimed;   // claimed by the slot of `next`
  std::shared_ptr<const void> use;   // keeps the sandbox from falling idle
  std::shared_ptr<Attempt> attempt;  // null: the attempt is over
  bool dropped = false;              // any result of the launch is an orphan

 private:
  std::string Tier() const override { return TierOf(next.spec); }
  Result<const Sandbox*> Begin(uint32_t slot) override {
    if (dropped) return atl::Fail(Code::kFailedPrecondition, "deleted before it was built");
    const Rollbacks::Parts& parts = rollbacks_.parts_;
    const Sandbox* const sandbox = parts.registry.Look(next.id);
    if (sandbox == nullptr || !IsLive(sandbox->state)) return atl::Fail(Ended(next.id));
    netpolicy::SlotRequest& network = next.spec.network;
    network.policy = claimed = sandbox->spec.network.policy;
    ATOLL_TRY(parts.network.ClaimSlot(slot, network));
    next.slot = slot;
    next.state = State::kBuilding;
    return &next;
  }
  const Sandbox* Begun() override { return dropped ? nullptr : &next; }
  void SlotLost() override {
    ::unlink(rollbacks_.parts_.registry.SocketPathOfHost(order().host_id).c_str());
    if (dropped) return;
    next.slot = 0;
    next.state = State::kQueued;
  }
  void Done(const tl::expected<wire::Built, CreateError>& built) override {
    if (dropped) return;
    if (built) return rollbacks_.Built(*this);
    const std::shared_ptr<Attempt> failed = attempt;
    failed->Fail(built.error());
  }

  Rollbacks& rollbacks_;
};

void Rollbacks::RollBack(const tenants::Caller& caller, const std::string& id,
                         const WantedRollback& wanted, const Created& done) {
  // After the record is written, the entrypoint may still have to start.
  const Attempt::Answered answered = [this, done](const Attempt::Outcome& outcome) {
    const Sandbox* const sandbox = outcome ? parts_.registry.Look(outcome->front()) : nullptr;
    const Attempt::Answered answer = parts_.attempts.AnswerTo(done);
    if (sandbox == nullptr || !IsRolledBackLater(*sandbox)) return answer(outcome);
    parts_.waiters.Add(*sandbox, [answer, done, ids = *outcome](const Status& runs) {
      if (runs) return answer(ids);
      done(tl::unexpected(CreateError(runs.error())));
    });
  };
  if (Join(caller, id, wanted, answered)) return;
  const auto attempt = parts_.attempts.Begin(
      caller,
      {.kind = Attempt::Kind::kRollback,
       .key = wanted.idempotency_key,
       .fingerprint = wanted.fingerprint,
       .request_id = wanted.request_id,
       .of = id},
      [this](const Attempt& failed, const CreateError& why) { TakeBack(failed, why); }, answered);
  if (attempt == nullptr) return;
  auto next = Next(caller, id, wanted.snapshot_id);
  if (!next) return attempt->Fail(next.error());
  attempt->Take(id);
  const auto build = std::make_shared<Build>(*this, std::move(*next), wanted, attempt);
  under_way_[build->order().host_id] = build;
  parts_.layers.Hold(build->next.layers);
  build->use = parts_.pauses.Use(*parts_.registry.Look(id));
  parts_.room.GiveWay();
  build->Enqueue();
}

bool Rollbacks::Join(const tenants::Caller& caller, const std::string& id,
                     const WantedRollback& wanted, const Attempt::Answered& answered) {
  // A key without a record belongs to another request.
  if (parts_.attempts.stopping() || !wanted.idempotency_key.empty()) return false;
  for (const auto& [host_id, build] : under_way_) {
    const Sandbox& next = build->next;
    if (next.id != id || build->snapshot_id != wanted.snapshot_id) continue;
    if (!MaySee(caller, next)) return false;
    build->attempt->Join(answered);
    return true;
  }
  const Sandbox* const sandbox = parts_.registry.Find(caller, id);
  if (sandbox == nullptr || !IsRolledBackLater(*sandbox)) return false;
  const auto snapshot = parts_.snapshots.Usable(caller, wanted.snapshot_id);
  if (!snapshot || snapshot->layers != sandbox->layers) return false;
  answered(std::vector{id});
  return true;
}

tl::expected<Sandbox, CreateError> Rollbacks::Next(const tenants::Caller& caller,
                                                   const std::string& id,
                                                   const std::string& snapshot_id) {
  const auto refuse = [](Error error) { return tl::unexpected(CreateError(std::move(error))); };
  const auto found = parts_.registry.Get(caller, id);
  if (!found) return refuse(found.error());
  const Sandbox& now = **found;
  if (sandbox::Next(now.state, Event::kRolledBack).action == Action::kRefuse) {
    return refuse(Error(Code::kFailedPrecondition,
                        "sandbox " + id + " is " + std::string(StateName(now.state)) +
                            ": only a running or paused sandbox can be rolled back"));
  }
  const bool under_way = std::any_of(under_way_.begin(), under_way_.end(),
                                     [&](const auto& one) { return one.second->next.id == id; });
  if (under_way) {
    return refuse(Error(Code::kFailedPrecondition,
                        "sandbox " + id + " is being rolled back by another request"));
  }
  if (Status known = parts_.objects.Check(now); !known) return refuse(std::move(known).error());
  auto usable = parts_.snapshots.Usable(caller, snapshot_id);
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
  if (auto allowed = parts_.check.StillAllowed(now); !allowed) {
    return tl::unexpected(allowed.error());
  }
  // The new version needs no further room on the host, because only one of the two versions has
  // running processes.
  Sandbox next = now;
  next.host_id = NewSandboxId();
  next.layers = std::move(usable->layers);
  next.slot = 0;
  next.state = State::kQueued;
  return next;
}

void Rollbacks::TakeBack(const Attempt& attempt, const CreateError& why) {
  ++(IsRefusal(why) ? stats_.refused : stats_.failed);
  LogFailed(attempt, why, "cannot roll a sandbox back");
  const auto found = std::find_if(under_way_.begin(), under_way_.end(), [&](const auto& one) {
    return one.second->attempt.get() == &attempt;
  });
  if (found == under_way_.end()) return;
  const std::shared_ptr<Build> build = std::move(found->second);
  under_way_.erase(found);
  build->dropped = true;
  const Sandbox& next = build->next;
  parts_.layers.Drop(next.layers);
  if (next.slot != 0) {
    parts_.orphans.Destroy(next.host_id, next.slot);
  } else {
    ::unlink(parts_.registry.SocketPathOfHost(next.host_id).c_str());
  }
}

void Rollbacks::Built(Build& build) {
  const std::shared_ptr<Attempt> attempt = build.attempt;
  const std::string id = build.next.id;
  const std::string host_id = build.order().host_id;
  const auto fail = [&](Error error) { attempt->Fail(CreateError(std::move(error))); };
  if (parts_.attempts.stopping()) return fail(ShuttingDown());
  Sandbox* const sandbox = parts_.registry.Look(id);
  if (sandbox == nullptr || !IsLive(sandbox->state)) return fail(Ended(id));
  if (build.TakeExit()) {
    return fail(Error(Code::kInternal, "execd of sandbox " + id + " has ended before its start"));
  }
  Sandbox next = *sandbox;
  next.host_id = host_id;
  next.layers = build.next.layers;
  next.slot = build.next.slot;
  next.spec.snapshot_id.clear();
  if (const auto& policy = next.spec.network.policy; policy != build.claimed) {
    auto egress = parts_.network.MakeReady(policy, next.tenant);
    const Status set =
        egress ? parts_.network.SetPolicy(next.slot, std::move(*egress)) : Fail(egress.error());
    if (!set) return fail(set.error());
  }
  parts_.machine.Enter(
      next, State::kReplacing,
      {"CONTAINER_STARTING", "Sandbox is being rolled back to snapshot " + build.snapshot_id});
  if (Status recorded = parts_.store.Replace(next, attempt->key()); !recorded) {
    return fail(std::move(recorded).error().Wrap("record the rollback"));
  }
  attempt->Commit();
  // Attach comes after the record, because a rollback that fails gives this slot to another
  // sandbox. The vault, like the policy, includes changes made meanwhile, and nothing runs in the
  // slot yet.
  parts_.vaults.Attach(id, next.slot);
  const std::shared_ptr<Build> launch = std::move(under_way_.extract(host_id).mapped());
  launch->use.reset();
  launch->attempt.reset();
  ++stats_.ok;
  LogLine(LogLevel::kInfo, "sandbox rolled back")
      .Add("sandbox", id)
      .Add("snapshot", build.snapshot_id)
      .Add("host_id", host_id)
      .Add("took_us", parts_.clock.BootMicros() - build.asked_us());
  const Sandbox former = parts_.registry.Exchange(*sandbox, std::move(next));
  parts_.layers.Drop(former.layers);
  parts_.waiters.Settle(
      *sandbox, Fail(Code::kFailedPrecondition, "sandbox " + id + " was rolled back meanwhile"));
  parts_.launches.Add(*sandbox, launch);
  formers_[sandbox] = {HostId(former), former.slot};
  parts_.waiters.Add(*sandbox, [attempt](const Status& settled) {
    settled ? attempt->Answer() : attempt->Fail(CreateError(settled.error()));
  });
  parts_.machine.Follow(*sandbox, former.state, Action::kReplace);
}

void Rollbacks::DestroyFormer(const Sandbox& sandbox) {
  const Former& former = formers_.at(&sandbox);
  parts_.logs.Remove(former.host_id);
  parts_.orphans.Destroy(former.host_id, former.slot);
}

void Rollbacks::FormersGone() {
  std::vector<std::string> ready;
  for (const auto& [sandbox, former] : formers_) {
    // An earlier daemon's rollback: nobody knows which orphan is the old version, so all orphans
    // must be gone.
    const bool gone =
        former.host_id.empty() ? parts_.orphans.empty() : !parts_.orphans.Has(former.host_id);
    if (gone) ready.push_back(sandbox->id);
  }
  for (const std::string& id : ready) {
    Sandbox* const found = parts_.registry.Look(id);
    if (found == nullptr) continue;
    Sandbox& sandbox = *found;
    const bool replacing = sandbox.state == State::kReplacing;
    if (!replacing && sandbox.state != State::kCancelled) {
      formers_.erase(&sandbox);
    } else if (replacing && parts_.launches.Find(sandbox) == nullptr) {
      formers_.erase(&sandbox);
      parts_.creates.BuildAgain(sandbox);
    } else if (!replacing) {
      formers_.erase(&sandbox);
      parts_.machine.ApplyAnyway(sandbox, Event::kReplaced, RunningCause());
    } else if (Status recorded = parts_.machine.Apply(sandbox, Event::kReplaced, RunningCause());
               recorded) {
      formers_.erase(&sandbox);
    } else {
      // The record says that nothing has run in the new version, and a restart would build it
      // again. So nothing may start before the record changes.
      LogLine(LogLevel::kError, "cannot start what a sandbox was rolled back to; trying again")
          .Add("sandbox", id)
          .Add(recorded.error());
      parts_.loop.After(kAgainUs, guard_([this] { FormersGone(); }));
    }
  }
}

void Rollbacks::Adopt(Sandbox& sandbox) {
  parts_.registry.SetHostId(sandbox, NewSandboxId());
  sandbox.slot = 0;
  formers_[&sandbox] = {};
}

void Rollbacks::StartEntrypoint(Sandbox& sandbox) {
  const std::shared_ptr<Launch> launch = parts_.launches.Find(sandbox);
  if (Status sent = launch->Start(sandbox); !sent) {
    return parts_.machine.ApplyAnyway(sandbox, Event::kStartFailed,
                                      {"ENTRYPOINT_START_FAILED", sent.error().message()});
  }
  parts_.waiters.Settle(sandbox, {});
  parts_.launches.Watch(sandbox);
}

bool Rollbacks::KeepExit(const wire::SandboxRecord& record) {
  const auto found = under_way_.find(record.id);
  if (found == under_way_.end()) return false;
  found->second->KeepExit(record);
  return true;
}

std::vector<const Sandbox*> Rollbacks::Coming() const {
  std::vector<const Sandbox*> coming;
  for (const auto& [host_id, build] : under_way_) coming.push_back(&build->next);
  return coming;
}

std::vector<std::shared_ptr<Attempt>> Rollbacks::TakeAll() {
  std::vector<std::shared_ptr<Attempt>> attempts;
  for (const auto& [host_id, build] : std::exchange(under_way_, {})) {
    build->dropped = true;
    attempts.push_back(build->attempt);
  }
  return attempts;
}

}  // namespace atl::sandbox
