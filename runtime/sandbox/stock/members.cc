#include "runtime/sandbox/stock/members.h"

#include <utility>

namespace atl::sandbox {
namespace {

// Process 1's exit, which explains its silence, arrives on another socket.
constexpr int64_t kExitPatienceUs = 500'000;

}  // namespace

CreateError RefusedClaim(Error why) {
  CreateError refused(std::move(why));
  refused.from_template = true;
  return refused;
}

Status Members::Build(const TemplateRecord& record, const std::string& id) {
  ATOLL_ASSIGN(Checked checked, parts_.check.Member(record));
  checked.sandbox.id = checked.sandbox.spec.network.sandbox = id;
  const auto attempt = parts_.attempts.BeginOwn(parts_.creates.TakesBack());
  parts_.creates.Begin(std::move(checked), {}, attempt, nullptr);
  return {};
}

void Members::Prepare(const std::string& id, const wire::Preparation& wanted,
                      std::function<void(Status)> done) {
  const Sandbox* const member = parts_.registry.Look(id);
  if (member == nullptr) return;
  preparations_.Begin(
      id, parts_.registry.SocketPathOf(id), member->access_token, wanted,
      [this, done = std::move(done)](const Status& prepared) {
        const bool silent = !prepared && prepared.error().code() == Code::kUnavailable;
        if (!silent) return done(prepared);
        parts_.loop.After(kExitPatienceUs, guard_([done, prepared] { done(prepared); }));
      });
}

void Members::Rest(const std::string& id, Settled done) {
  Sandbox* const member = parts_.registry.Look(id);
  if (member != nullptr) parts_.pauses.Rest(*member, std::move(done));
}

void Members::Dispose(const std::string& id) {
  Sandbox* const member = parts_.registry.Look(id);
  if (member == nullptr) return;
  parts_.machine.ApplyAnyway(*member, Event::kDelete, {"TEMPLATE_STOCK", "Nobody has claimed it"});
}

void Members::Give(const std::string& id, const tenants::Caller& caller, const Wanted& wanted,
                   const std::shared_ptr<Attempt>& attempt) {
  const int64_t asked_us = parts_.clock.BootMicros();
  attempt->Take(id);
  const auto refuse = [&](Error why) { attempt->Fail(RefusedClaim(std::move(why))); };
  Sandbox* const member = parts_.registry.Look(id);
  if (member == nullptr || !IsLive(member->state)) {
    return refuse(
        Error(Code::kUnavailable, "the parked sandbox that was chosen has ended; try again"));
  }
  // The claim takes the member's share of the quota over.
  parts_.room.Drop(*member);
  auto claimed = parts_.check.Claimed(caller, wanted, *member);
  parts_.room.Hold(*member);
  if (!claimed) return refuse(std::move(claimed).error());
  // The member is frozen or unknown to clients, so no program of its client has run without the
  // policy.
  if (claimed->spec.network.policy) {
    auto egress = parts_.network.MakeReady(claimed->spec.network.policy, claimed->tenant);
    Status set = egress ? parts_.network.SetPolicy(claimed->slot, std::move(*egress))
                        : Status(Fail(std::move(egress).error()));
    if (!set) return refuse(std::move(set).error());
  }
  // This record gives the member to its client, also for a daemon that restarts.
  if (Status recorded = parts_.store.Reinsert(*claimed, attempt->key()); !recorded) {
    return refuse(std::move(recorded).error().Wrap("record the new sandbox"));
  }
  attempt->KeyStored();
  parts_.room.Drop(*member);
  parts_.registry.Exchange(*member, std::move(*claimed));
  Sandbox& sandbox = *member;
  if (given_) given_(sandbox);
  parts_.room.Hold(sandbox);
  parts_.expiry.SetDeadline(sandbox);
  const auto answer = [this, id, attempt, asked_us](const Status& runs) {
    if (!runs) {
      // Deferred, because this callback must not fail the attempt from within the report.
      return parts_.loop.Post(
          [attempt, refused = RefusedClaim(runs.error())] { attempt->Fail(refused); });
    }
    parts_.creates.CountOk(Origin::kTemplate, parts_.clock.BootMicros() - asked_us);
    attempt->Commit();
    attempt->Answer();
  };
  if (sandbox.state == State::kPaused) return parts_.pauses.Claim(sandbox, answer);
  parts_.pauses.WatchIdle(sandbox);
  parts_.history.Note(sandbox, parts_.clock.UnixMillis());
  answer({});
}

}  // namespace atl::sandbox
