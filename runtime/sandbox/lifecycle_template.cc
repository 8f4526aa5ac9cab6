// Creates of a template, and the sandboxes that wait for them: entries like any other, which no
// client sees before they are claimed.
#include <utility>

#include "cgroup/limits_text.h"
#include "runtime/base/log.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// The end of process 1, which tells more than its silence, comes on another socket.
constexpr int64_t kExitPatienceUs = 500'000;

Wanted WantedOf(const TemplateRecord& record) {
  Wanted wanted;
  wanted.spec.image = record.image;
  wanted.spec.template_id = record.id;
  wanted.spec.entrypoint = record.entrypoint;
  wanted.spec.env = record.env;
  wanted.resource_limits = record.resource_limits;
  return wanted;
}

CreateError RefusedClaim(Error why) {
  CreateError refused(std::move(why));
  refused.from_template = true;
  return refused;
}

}  // namespace

void Lifecycle::MakeOfTemplate(const Wanted& wanted, const SharedAttempt& attempt) {
  const auto record = templates_.Usable(wanted.spec.template_id);
  if (!record) return attempt->Fail(RefusedClaim(record.error()));
  // All that the request says is checked before anything is taken.
  const auto member = MemberOf(**record);
  const auto claimed = member ? ClaimedOf(wanted, *member) : member;
  if (!claimed) return attempt->Fail(RefusedClaim(claimed.error()));
  GiveWay();
  templates_.Claim(wanted, attempt);
}

Result<Sandbox> Lifecycle::ClaimedOf(const Wanted& wanted, Sandbox member) const {
  member.stocked = false;
  member.metadata = wanted.metadata;
  member.spec.extensions = wanted.spec.extensions;
  member.spec.unique_name = wanted.spec.unique_name;
  member.spec.renew_by_seconds = wanted.spec.renew_by_seconds;
  member.spec.idle = wanted.spec.idle;
  member.spec.reclaims = wanted.spec.reclaims;
  member.spec.network.policy = wanted.spec.network.policy;
  ATOLL_TRY(SetTerms(wanted, member));
  return member;
}

Result<Lifecycle::Checked> Lifecycle::CheckMember(const TemplateRecord& record) const {
  ATOLL_ASSIGN(Checked checked, Check(WantedOf(record), nullptr));
  checked.sandbox.stocked = true;
  // Nobody uses it, and that is what it is for.
  checked.sandbox.spec.idle.reset();
  return checked;
}

Result<Sandbox> Lifecycle::MemberOf(const TemplateRecord& record) const {
  ATOLL_ASSIGN(Checked checked, CheckMember(record));
  return std::move(checked.sandbox);
}

Status Lifecycle::CheckStock(const Spec& member, bool another) const {
  Held all = held_;
  all.Add(templates_.stock());
  all.Add(pools_.stock());
  if (!another) all.Remove(member);
  return CheckBudget(config_.budget, all, member);
}

void Lifecycle::BuildMember(const TemplateRecord& record, const std::string& id) {
  auto checked = CheckMember(record);
  if (!checked) return MemberLost(id, checked.error().message());
  checked->sandbox.id = checked->sandbox.spec.network.sandbox = id;
  Acquire(
      std::move(*checked), {},
      std::make_shared<Attempt>(AttemptParts(), Attempt::Request{.kind = Attempt::Kind::kStock}));
}

void Lifecycle::PrepareMember(const std::string& id, const wire::Preparation& wanted,
                              std::function<void(Status)> done) {
  const Entry* const entry = Look(id);
  if (entry == nullptr) return;
  preparations_.Begin(
      id, SocketPathOf(id), entry->sandbox.access_token, wanted,
      [this, done = std::move(done)](const Status& prepared) {
        const bool silent = !prepared && prepared.error().code() == Code::kUnavailable;
        if (!silent) return done(prepared);
        loop_.After(kExitPatienceUs, [done, prepared, alive = std::weak_ptr(alive_)] {
          if (!alive.expired()) done(prepared);
        });
      });
}

void Lifecycle::RestMember(const std::string& id, std::function<void(Status)> done) {
  Entry* const entry = Look(id);
  if (entry == nullptr) return;
  SwitchEntry(*entry, Event::kPause, kIdlePausing, "It waits for a create of its template",
              std::move(done));
}

void Lifecycle::DisposeMember(const std::string& id) {
  Entry* const entry = Look(id);
  if (entry == nullptr) return;
  ApplyAnyway(*entry, Event::kDelete, {"TEMPLATE_STOCK", "Nobody has claimed it"});
}

const Sandbox* Lifecycle::FindMember(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second.sandbox;
}

void Lifecycle::MemberLost(const std::string& id, const std::string& why) {
  preparations_.GiveUp(id);
  // Not from within what has ended it.
  loop_.Post([this, id, why, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) templates_.Lost(id, why);
  });
}

void Lifecycle::MemberRuns(const std::string& id) {
  loop_.Post([this, id, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) templates_.Runs(id);
  });
}

void Lifecycle::AdoptMembers() {
  std::vector<std::string> unready;
  for (const auto& [id, entry] : entries_) {
    const Sandbox& sandbox = entry.sandbox;
    if (!sandbox.stocked) continue;
    if (sandbox.state == State::kPaused && templates_.Adopt(sandbox)) continue;
    unready.push_back(id);
  }
  for (const std::string& id : unready) DisposeMember(id);
}

void Lifecycle::GiveMember(const std::string& id, const Wanted& wanted, SharedAttempt attempt) {
  const int64_t asked_us = clock_.BootMicros();
  attempt->Take(id);
  const auto refuse = [&](Error why) { attempt->Fail(RefusedClaim(std::move(why))); };
  Entry* const entry = Look(id);
  if (entry == nullptr || !IsLive(entry->sandbox.state)) {
    return refuse(Error(Code::kUnavailable, "what was to be claimed has ended; try again"));
  }
  auto claimed = ClaimedOf(wanted, entry->sandbox);
  if (!claimed) return refuse(std::move(claimed).error());
  // It stands still, or nobody knows it: no program of its client's has run without the policy.
  if (claimed->spec.network.policy) {
    auto egress = network_.MakeReady(claimed->spec.network.policy);
    Status set = egress ? network_.SetPolicy(claimed->slot, std::move(*egress))
                        : Status(Fail(std::move(egress).error()));
    if (!set) return refuse(std::move(set).error());
  }
  // From here on it is its client's also for a daemon that starts.
  if (Status recorded = store_.Reinsert(*claimed, attempt->key()); !recorded) {
    return refuse(std::move(recorded).error().Wrap("record the new sandbox"));
  }
  attempt->KeyStored();
  entry->sandbox = std::move(*claimed);
  held_.Add(entry->sandbox.spec);
  names_.Add(entry->sandbox);
  SetDeadline(*entry);
  const auto answer = [this, id, attempt, asked_us](const Status& runs) {
    if (!runs) {
      // Not from within what tells of it.
      return loop_.Post(
          [attempt, refused = RefusedClaim(runs.error())] { attempt->Fail(refused); });
    }
    CountCreated(Origin::kTemplate, clock_.BootMicros() - asked_us);
    attempt->Commit();
    attempt->Answer();
  };
  if (entry->sandbox.state == State::kPaused) {
    return SwitchEntry(*entry, Event::kResume, kIdleResuming, "A create has claimed it", answer);
  }
  WatchIdle(*entry, State::kAcquiring);
  Note(entry->sandbox, std::string(StateName(entry->sandbox.state)));
  answer({});
}

}  // namespace atl::sandbox
