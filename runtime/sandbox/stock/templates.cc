#include "runtime/sandbox/stock/templates.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"

namespace atl::sandbox {
namespace {

// Quiet time after a create, whose client is about to send the first command.
constexpr int64_t kStockQuietUs = 20'000;
// First and last delay between two attempts of a failing template.
constexpr int64_t kFirstTryAgainUs = 2'000'000;
constexpr int64_t kLastTryAgainUs = 300'000'000;
// A member that has been ready for this long proves that the template works.
constexpr int64_t kProvenUs = 60'000'000;
// Limits of members in preparation: in total, and for stock, one per template. So a member that
// hangs until its timeout delays neither other templates nor waiting creates.
constexpr size_t kMostComing = 8;
constexpr size_t kMostStocking = 4;
constexpr size_t kMostWaiting = 64;
// A client that has waited this long has gone.
constexpr int64_t kWaitUs = 120'000'000;

Error NoneToBeHad(const std::string& id, const std::string& why) {
  return Error(Code::kUnavailable, "no sandbox of template '" + id + "' can be had: " + why);
}

Error NoSuchTemplate(const std::string& id) {
  return Error(Code::kNotFound, "template '" + id.substr(0, 64) + "' does not exist");
}

}  // namespace

std::string_view PhaseName(Templates::Phase phase) {
  switch (phase) {
    case Templates::Phase::kPending:
      return "Pending";
    case Templates::Phase::kBuilding:
      return "Building";
    case Templates::Phase::kSucceeded:
      return "Succeeded";
    case Templates::Phase::kFailed:
      return "Failed";
  }
  return "";
}

Status Templates::Load() {
  ATOLL_ASSIGN(std::vector<TemplateRecord> records, parts_.store.Load());
  for (TemplateRecord& record : records) {
    Template& of = templates_[record.id];
    of.record = std::move(record);
  }
  if (!templates_.empty()) PumpLater(kStockQuietUs);
  return {};
}

void Templates::AdoptMembers() {
  std::vector<std::string> unready;
  for (const auto& [id, sandbox] : parts_.registry) {
    if (!sandbox.stocked) continue;
    if (sandbox.state == State::kPaused && Adopt(sandbox)) continue;
    unready.push_back(id);
  }
  for (const std::string& id : unready) parts_.members.Dispose(id);
}

void Templates::OnTransition(const Sandbox& sandbox, State before) {
  if (!sandbox.stocked) return;
  const auto is_there = [](State state) { return !IsOver(state) && !IsLeaving(state); };
  if (is_there(before) && !is_there(sandbox.state)) return LoseLater(sandbox.id, sandbox.message);
  if (before != State::kBuilding || sandbox.state != State::kRunning) return;
  // Deferred until the record is written.
  parts_.loop.Post(guard_([this, id = sandbox.id] { Runs(id); }));
}

void Templates::LoseLater(const std::string& id, std::string why) {
  parts_.members.GiveUp(id);
  parts_.loop.Post(guard_([this, id, why = std::move(why)] { Lost(id, why); }));
}

Result<Sandbox> Templates::MemberOf(const TemplateRecord& record) const {
  ATOLL_ASSIGN(Checked checked, parts_.check.Member(record));
  return std::move(checked.sandbox);
}

bool Templates::Adopt(const Sandbox& member) {
  const auto found = templates_.find(member.spec.template_id);
  if (found == templates_.end()) return false;
  found->second.ready.push_back({member.id, parts_.clock.BootMicros()});
  return true;
}

std::string Templates::TenantOf(const std::string& id) const {
  const auto found = templates_.find(id);
  return found == templates_.end() ? "" : found->second.record.tenant;
}

void Templates::CountKept(const std::string& tenant, Kept* kept) const {
  for (const auto& [id, of] : templates_) {
    kept->all += of.record.stock;
    if (of.record.tenant == tenant) kept->own += of.record.stock;
  }
}

Held Templates::stock() const {
  Held held;
  const auto add = [&](const std::string& id) {
    const Sandbox* const member = parts_.registry.Look(id);
    if (member != nullptr) held.Add(member->spec);
  };
  for (const auto& [id, of] : templates_) {
    for (const Ready& ready : of.ready) add(ready.id);
    for (const std::string& coming : of.coming) add(coming);
  }
  return held;
}

Result<std::string> Templates::Create(const tenants::Caller& caller, TemplateRecord record) {
  record.tenant = caller.tenant;
  if (stopped_) return Fail(Code::kUnavailable, "atolld is shutting down");
  ATOLL_TRY(parts_.check.Ahead(caller, record.image, record.resource_limits,
                               std::max<uint32_t>(1, record.stock)));
  const auto one = [](const Template&) { return 1; };
  if (!FairPlaces::Allows(kMaxTemplates, record.tenant, templates_.size(),
                          SumOf(record.tenant, one))) {
    return Fail(Code::kResourceExhausted,
                record.tenant.empty()
                    ? "there are " + std::to_string(kMaxTemplates) +
                          " templates, the limit of this host; delete one"
                    : "tenant " + record.tenant +
                          " has used its share of this host's templates; delete one");
  }
  ATOLL_TRY(CheckKept(record.tenant, "stock: with " + std::to_string(record.stock) + " more",
                      parts_.room.KeptFor(record.tenant), record.stock, most_members_));
  ATOLL_ASSIGN(const Sandbox member, MemberOf(record));
  // Refuses only a template that could never fit. A template that does not fit now may fit later.
  if (const Status room = parts_.room.CheckStock(member.spec, true);
      !room && room.error().code() == Code::kInvalidArgument) {
    return Fail(room.error());
  }
  record.id = "tpl-" + NewSandboxId();
  record.image = member.spec.image;
  record.created_at_ms = record.updated_at_ms = parts_.clock.UnixMillis();
  ATOLL_TRY(parts_.store.Write(record));
  const std::string id = record.id;
  templates_[id].record = std::move(record);
  PumpLater(0);
  return id;
}

Status Templates::Remove(const tenants::Caller& caller, const std::string& id) {
  const auto found = templates_.find(id);
  if (found == templates_.end() || !caller.Sees(found->second.record.tenant))
    return Fail(NoSuchTemplate(id));
  ATOLL_TRY(parts_.store.Remove(id));
  Template gone = std::move(found->second);
  templates_.erase(found);
  DisposeAll(gone);
  for (const Waiter& waiter : gone.waiters) {
    Refuse(waiter, Error(Code::kNotFound, "template '" + id + "' was deleted"));
  }
  return {};
}

std::optional<Templates::View> Templates::Find(const tenants::Caller& caller,
                                               const std::string& id) const {
  const auto found = templates_.find(id);
  if (found == templates_.end() || !caller.Sees(found->second.record.tenant)) return std::nullopt;
  const Template& of = found->second;
  View view;
  view.record = &of.record;
  view.ready = static_cast<uint32_t>(of.ready.size());
  view.building = static_cast<uint32_t>(of.coming.size());
  view.waiting = static_cast<uint32_t>(of.waiters.size());
  view.trouble = of.record.failure.empty() ? of.trouble : of.record.failure;
  view.phase = of.record.succeeded          ? Phase::kSucceeded
               : !of.record.failure.empty() ? Phase::kFailed
               : !of.coming.empty()         ? Phase::kBuilding
                                            : Phase::kPending;
  return view;
}

std::vector<const TemplateRecord*> Templates::Records(const tenants::Caller& caller) const {
  std::vector<const TemplateRecord*> all;
  for (const auto& [id, of] : templates_) {
    if (caller.Sees(of.record.tenant)) all.push_back(&of.record);
  }
  return all;
}

const TemplateRecord* Templates::UserOf(const std::string& owner, const std::string& image) const {
  const auto found = std::find_if(templates_.begin(), templates_.end(), [&](const auto& entry) {
    const TemplateRecord& record = entry.second.record;
    return (owner.empty() || owner == record.tenant) && record.image == image;
  });
  return found == templates_.end() ? nullptr : &found->second.record;
}

Result<const TemplateRecord*> Templates::Usable(const tenants::Caller& caller,
                                                const std::string& id) const {
  const auto found = templates_.find(id);
  if (found == templates_.end() || !caller.Sees(found->second.record.tenant))
    return Fail(NoSuchTemplate(id));
  const TemplateRecord& record = found->second.record;
  if (record.succeeded) return &record;
  return Fail(Code::kNotFound, "template '" + id + "' is not built yet" +
                                   (record.failure.empty() ? "" : ": " + record.failure));
}

template <typename Count>
size_t Templates::SumOf(const std::string& tenant, Count count) const {
  size_t sum = 0;
  for (const auto& [id, of] : templates_) {
    if (of.record.tenant == tenant) sum += static_cast<size_t>(count(of));
  }
  return sum;
}

bool Templates::MayBuild(const Template& of, size_t coming, size_t most) const {
  const std::string& tenant = of.record.tenant;
  return FairPlaces::Allows(most, tenant, coming,
                            SumOf(tenant, [](const Template& each) { return each.coming.size(); }));
}

size_t Templates::waiting() const {
  size_t all = 0;
  for (const auto& [id, of] : templates_) all += of.waiters.size();
  return all;
}

void Templates::Claim(const tenants::Caller& caller, const Wanted& wanted,
                      std::shared_ptr<Attempt> attempt) {
  Template& of = templates_.at(wanted.spec.template_id);
  if (!of.ready.empty()) {
    const std::string id = of.ready.front().id;
    of.ready.pop_front();
    ++stats_.claimed;
    of.failures = 0;
    return parts_.members.Give(id, caller, wanted, std::move(attempt));
  }
  const int64_t now = parts_.clock.BootMicros();
  Waiter waiter{caller, wanted, std::move(attempt), now + kWaitUs};
  if (stopped_) return Refuse(waiter, Error(Code::kUnavailable, "atolld is shutting down"));
  if (now < of.retry_us && of.coming.empty()) {
    return Refuse(waiter, NoneToBeHad(of.record.id, of.trouble));
  }
  const std::string& tenant = of.record.tenant;
  if (!FairPlaces::Allows(kMostWaiting, tenant, waiting(), SumOf(tenant, [](const Template& each) {
                            return each.waiters.size();
                          }))) {
    return Refuse(waiter, Error(Code::kResourceExhausted,
                                (tenant.empty() ? std::to_string(kMostWaiting) : "too many") +
                                    " creates wait for sandboxes of templates; try again later, "
                                    "or make the template with a larger stock"));
  }
  of.waiters.push_back(std::move(waiter));
  Pump();
}

void Templates::Refuse(const Waiter& waiter, const Error& why) {
  CreateError refused(why);
  refused.from_template = true;
  waiter.attempt->Fail(refused);
}

void Templates::GiveWay() {
  if (templates_.empty()) return;
  quiet_from_us_ = parts_.clock.BootMicros();
  MakeRoom();
  PumpLater(kStockQuietUs);
}

void Templates::MakeRoom() {
  for (auto& [id, of] : templates_) {
    while (!of.ready.empty()) {
      const Sandbox* member = parts_.registry.Look(of.ready.back().id);
      if (member != nullptr && parts_.room.CheckStock(member->spec, false)) break;
      const std::string last = of.ready.back().id;
      of.ready.pop_back();
      Dispose(of, last);
    }
  }
}

void Templates::Look() {
  const int64_t now = parts_.clock.BootMicros();
  for (auto& [id, of] : templates_) {
    std::vector<Waiter> late;
    while (!of.waiters.empty() && of.waiters.front().until_us <= now) {
      late.push_back(std::move(of.waiters.front()));
      of.waiters.pop_front();
    }
    for (const Waiter& waiter : late) {
      Refuse(waiter, Error(Code::kUnavailable,
                           "no sandbox of template '" + id + "' was ready in time; try again"));
    }
    if (of.ready.empty()) continue;
    if (now - of.ready.front().since_us > kProvenUs) of.failures = 0;
    const Sandbox* member = parts_.registry.Look(of.ready.front().id);
    const auto current = MemberOf(of.record);
    if (member == nullptr || !current || !IsBuiltLike(*member, *current)) {
      for (const Ready& ready : std::exchange(of.ready, {})) Dispose(of, ready.id);
    }
  }
  Pump();
}

Templates::Template* Templates::OwnerOf(const std::string& member) {
  for (auto& [id, of] : templates_) {
    if (of.coming.contains(member)) return &of;
    if (std::any_of(of.ready.begin(), of.ready.end(),
                    [&member](const Ready& ready) { return ready.id == member; })) {
      return &of;
    }
  }
  return nullptr;
}

void Templates::Runs(const std::string& id) {
  Template* const of = OwnerOf(id);
  if (of == nullptr) return parts_.members.Dispose(id);
  parts_.members.Prepare(id, of->record.preparation,
                         [this, id](const Status& prepared) { Prepared(id, prepared); });
}

void Templates::Prepared(const std::string& id, const Status& prepared) {
  Template* const of = OwnerOf(id);
  if (of == nullptr) return;
  if (!prepared) {
    of->coming.erase(id);
    Dispose(*of, id);
    return Failed(*of, prepared.error().message());
  }
  ++stats_.built;
  Succeeded(*of);
  if (GiveToWaiter(*of, id)) return Pump();
  parts_.members.Rest(id, guard_([this, id](const Status& rested) { Rested(id, rested); }));
}

void Templates::Rested(const std::string& id, const Status& rested) {
  Template* const of = OwnerOf(id);
  if (of == nullptr) return;
  if (!rested) {
    of->coming.erase(id);
    Dispose(*of, id);
    return Failed(*of, rested.error().message());
  }
  if (!GiveToWaiter(*of, id)) {
    of->coming.erase(id);
    of->ready.push_back({id, parts_.clock.BootMicros()});
    // A create may have taken the room meanwhile.
    MakeRoom();
  }
  Pump();
}

bool Templates::GiveToWaiter(Template& of, const std::string& id) {
  if (of.waiters.empty()) return false;
  Waiter waiter = std::move(of.waiters.front());
  of.waiters.pop_front();
  of.coming.erase(id);
  ++stats_.waited;
  parts_.members.Give(id, waiter.caller, waiter.wanted, std::move(waiter.attempt));
  return true;
}

void Templates::Lost(const std::string& id, const std::string& why) {
  Template* const of = OwnerOf(id);
  if (of == nullptr) return;
  of->coming.erase(id);
  std::erase_if(of->ready, [&id](const Ready& ready) { return ready.id == id; });
  Failed(*of, "it has ended: " + why);
}

void Templates::Failed(Template& of, const std::string& why) {
  ++stats_.failed;
  const int64_t wait = std::min(kLastTryAgainUs, kFirstTryAgainUs << std::min(of.failures, 20));
  ++of.failures;
  of.retry_us = parts_.clock.BootMicros() + wait;
  of.trouble = why;
  LogLine(LogLevel::kWarning, "a sandbox of a template is not ready")
      .Add("template", of.record.id)
      .Add("why", why)
      .Add("again_in_s", static_cast<uint64_t>(wait / 1'000'000));
  of.record.failure = why;
  Write(of);
  // Other members in preparation may still succeed.
  if (of.coming.empty()) {
    for (const Waiter& waiter : std::exchange(of.waiters, {})) {
      Refuse(waiter, NoneToBeHad(of.record.id, why));
    }
  }
  PumpLater(wait);
}

void Templates::Succeeded(Template& of) {
  of.retry_us = 0;
  of.trouble.clear();
  if (of.record.succeeded && of.record.failure.empty()) return;
  of.record.succeeded = true;
  of.record.failure.clear();
  Write(of);
}

void Templates::Write(Template& of) {
  of.record.updated_at_ms = parts_.clock.UnixMillis();
  if (Status written = parts_.store.Write(of.record); !written) {
    LogLine(LogLevel::kWarning, "cannot record what became of a template")
        .Add("template", of.record.id)
        .Add(written.error());
  }
}

void Templates::Pump() {
  if (stopped_) return;
  const int64_t now = parts_.clock.BootMicros();
  size_t coming = 0;
  for (const auto& [id, of] : templates_) coming += of.coming.size();
  // Serves waiting creates first, without delay.
  for (auto& [id, of] : templates_) {
    while (of.coming.size() < of.waiters.size() && now >= of.retry_us &&
           MayBuild(of, coming, kMostComing)) {
      const size_t before = of.coming.size();
      Build(of);
      if (of.coming.size() == before) break;
      ++coming;
    }
  }
  if (coming >= kMostStocking) return;
  // A template that has to leave the places to others waits for the end of a preparation.
  Template* next = nullptr;
  int64_t soonest = INT64_MAX;
  for (auto& [id, of] : templates_) {
    if (of.ready.size() >= of.record.stock || !of.coming.empty()) continue;
    if (!MayBuild(of, coming, kMostStocking)) continue;
    soonest = std::min(soonest, of.retry_us);
    if (now < of.retry_us) continue;
    if (next == nullptr || of.ready.size() < next->ready.size()) next = &of;
  }
  if (next == nullptr) {
    if (soonest != INT64_MAX) PumpLater(soonest - now);
    return;
  }
  const int64_t due = quiet_from_us_ + kStockQuietUs;
  if (quiet_from_us_ != 0 && now < due) return PumpLater(due - now);
  if (!parts_.admission.idle()) return PumpLater(kStockQuietUs);
  Build(*next);
  PumpLater(kStockQuietUs);
}

void Templates::PumpLater(int64_t delay_us) {
  // The earlier caller sets the timer, and Pump then handles the rest.
  if (timer_ != 0) {
    parts_.loop.Cancel(timer_);
    delay_us = std::min(delay_us, kStockQuietUs);
  }
  timer_ = parts_.loop.After(delay_us, [this] {
    timer_ = 0;
    Pump();
  });
}

void Templates::Build(Template& of) {
  const auto member = MemberOf(of.record);
  Status room =
      member ? parts_.check.CheckStock(of.record.tenant, member->spec) : Fail(member.error());
  if (room) room = parts_.check.CheckMemberQuota(of.record.tenant, *member);
  if (!room) {
    // The lack of room is temporary and not the template's fault; Look tries again.
    of.trouble = room.error().message();
    // A refusal by the tenant's terms lasts. Without a delay this template would always be the next
    // one, and others would get no members.
    if (room.error().code() == Code::kPermissionDenied || room.error().error_number() == kByTerms) {
      of.retry_us = parts_.clock.BootMicros() + kFirstTryAgainUs;
    }
    for (const Waiter& waiter : std::exchange(of.waiters, {})) Refuse(waiter, room.error());
    return;
  }
  of.trouble.clear();
  const std::string id = NewSandboxId();
  of.coming.insert(id);
  Status begun = parts_.members.Build(of.record, id);
  if (!begun) LoseLater(id, begun.error().message());
}

void Templates::Dispose(Template& of, const std::string& id) {
  of.coming.erase(id);
  ++stats_.disposed;
  parts_.members.Dispose(id);
}

void Templates::DisposeAll(Template& of) {
  for (const Ready& ready : std::exchange(of.ready, {})) Dispose(of, ready.id);
  for (const std::string& id : std::exchange(of.coming, {})) Dispose(of, id);
}

void Templates::Stop() {
  stopped_ = true;
  for (auto& [id, of] : templates_) {
    of.ready.clear();
    of.coming.clear();
    for (const Waiter& waiter : std::exchange(of.waiters, {})) {
      Refuse(waiter, Error(Code::kUnavailable, "atolld is shutting down"));
    }
  }
}

}  // namespace atl::sandbox
