#include "runtime/sandbox/orders.h"

#include <utility>

#include "runtime/sandbox/create/own_mounts.h"

namespace atl::sandbox {
namespace {

Origin OriginOf(const Wanted& wanted) {
  if (!wanted.spec.template_id.empty()) return Origin::kTemplate;
  return wanted.spec.snapshot_id.empty() ? Origin::kCold : Origin::kSnapshot;
}

}  // namespace

void Orders::Create(const tenants::Caller& caller, const Wanted& wanted, const Created& done) {
  // The host mounts what a request names.
  if (caller.tenant.empty() || wanted.mounts.empty()) return Begin(caller, wanted, done);
  auto mounts = OwnMounts(caller, parts_.tenants.Find(caller.tenant).get(), wanted.mounts);
  if (!mounts) return done(tl::unexpected(mounts.error()));
  Wanted own = wanted;
  own.mounts = std::move(*mounts);
  Begin(caller, own, done);
}

void Orders::Begin(const tenants::Caller& caller, const Wanted& wanted, const Created& done) {
  const SharedAttempt attempt =
      parts_.attempts.Begin(caller,
                            {.key = wanted.idempotency_key,
                             .fingerprint = wanted.fingerprint,
                             .request_id = wanted.request_id,
                             .origin = OriginOf(wanted)},
                            parts_.creates.TakesBack(), parts_.attempts.AnswerTo(done));
  if (attempt == nullptr) return;
  if (!wanted.spec.template_id.empty()) return Claim(caller, wanted, attempt);
  wanted.spec.extensions.contains(kPoolRef) ? BuildOfPool(caller, wanted, attempt)
                                            : Build(caller, wanted, attempt);
}

void Orders::Build(const tenants::Caller& caller, const Wanted& wanted,
                   const SharedAttempt& attempt) {
  auto checked = parts_.check.Create(caller, wanted);
  if (!checked) return attempt->Fail(checked.error());
  // Nothing waits between this and Begin, so no other code has to give the member back.
  std::unique_ptr<ParkedSandbox> parked = parts_.pools.Claim(&*checked, wanted);
  parts_.creates.Begin(std::move(*checked), wanted, attempt, std::move(parked));
}

void Orders::BuildOfPool(const tenants::Caller& caller, const Wanted& wanted,
                         const SharedAttempt& attempt) {
  const auto filled = parts_.pools.Fill(caller, wanted);
  if (filled) return Build(caller, *filled, attempt);
  CreateError refused(filled.error());
  refused.pool = true;
  attempt->Fail(refused);
}

void Orders::Claim(const tenants::Caller& caller, const Wanted& wanted,
                   const SharedAttempt& attempt) {
  const auto record = parts_.templates.Usable(caller, wanted.spec.template_id);
  if (!record) return attempt->Fail(RefusedClaim(record.error()));
  // Checks the whole request before anything is taken.
  auto member = parts_.check.Member(**record);
  if (!member) return attempt->Fail(RefusedClaim(member.error()));
  // A member that nobody waits for counts already. The claim takes its share of the quota over.
  const auto view = parts_.templates.Find(caller, wanted.spec.template_id);
  const bool counts = view && (view->ready != 0 || view->building > view->waiting);
  if (counts) parts_.room.Drop(member->sandbox);
  const auto claimed = parts_.check.Claimed(caller, wanted, member->sandbox);
  if (counts) parts_.room.Hold(member->sandbox);
  if (!claimed) return attempt->Fail(RefusedClaim(claimed.error()));
  parts_.room.GiveWay();
  parts_.templates.Claim(caller, wanted, attempt);
}

}  // namespace atl::sandbox
