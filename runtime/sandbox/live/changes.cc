#include "runtime/sandbox/live/changes.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {

Status Changes::Renew(const tenants::Caller& caller, const std::string& id, int64_t expires_at_ms) {
  ATOLL_ASSIGN(Sandbox * sandbox, parts_.registry.Get(caller, id));
  if (expires_at_ms <= parts_.clock.UnixMillis()) {
    return Fail(Code::kInvalidArgument, "expiresAt is not in the future");
  }
  if (!sandbox->expires_at_ms) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + id + " was created without a timeout and never expires; delete it");
  }
  if (const SharedTerms terms = parts_.terms.Of(sandbox->tenant, caller)) {
    ATOLL_TRY(terms->CheckLifetime((expires_at_ms - parts_.clock.UnixMillis() + 999) / 1000));
  }
  const auto before = std::exchange(sandbox->expires_at_ms, expires_at_ms);
  if (parts_.machine.IsRecorded(*sandbox)) {
    if (auto stored = parts_.store.Update(*sandbox); !stored) {
      sandbox->expires_at_ms = before;
      return stored;
    }
    parts_.expiry.SetDeadline(*sandbox);
  }
  parts_.history.Note(*sandbox, "Renewed", parts_.clock.UnixMillis());
  return {};
}

void Changes::OpenSessions(const tenants::Caller& caller, const std::string& id) {
  const Sandbox* const sandbox = parts_.registry.Find(caller, id);
  // Behind other walls the spawner makes no session.
  if (sandbox == nullptr || TierOf(sandbox->spec) != wire::kNamespaceTier) return;
  parts_.sessions.Open(HostId(*sandbox), parts_.registry.SocketPathOf(id), sandbox->access_token);
}

void Changes::Touch(const tenants::Caller& caller, const std::string& id) {
  if (!renew_interval_seconds_) return;
  const Sandbox* const sandbox = parts_.registry.Find(caller, id);
  if (sandbox == nullptr || !sandbox->spec.renew_by_seconds || !sandbox->expires_at_ms ||
      sandbox->state != State::kRunning) {
    return;
  }
  const int64_t now_ms = parts_.clock.UnixMillis();
  const auto touched = touched_ms_.find(sandbox);
  // A wall clock that was set back must not stop renewals until it has caught up.
  const int64_t since_ms = now_ms - (touched == touched_ms_.end() ? 0 : touched->second);
  if (since_ms >= 0 && since_ms < *renew_interval_seconds_ * 1000) return;
  int64_t ahead_s = *sandbox->spec.renew_by_seconds;
  const SharedTerms terms = parts_.terms.Of(sandbox->tenant, caller);
  if (terms && terms->max.timeout_seconds != 0) {
    ahead_s = std::min(ahead_s, static_cast<int64_t>(terms->max.timeout_seconds));
  }
  const int64_t until_ms = now_ms + ahead_s * 1000;
  if (until_ms <= *sandbox->expires_at_ms) return;
  if (auto renewed = Renew(caller, id, until_ms); !renewed) {
    LogLine(LogLevel::kWarning, "cannot renew a sandbox that is being used")
        .Add("sandbox", id)
        .Add(renewed.error());
    return;
  }
  touched_ms_[sandbox] = now_ms;
}

Status Changes::PatchMetadata(const tenants::Caller& caller, const std::string& id,
                              const MetadataPatch& patch) {
  ATOLL_ASSIGN(Sandbox * found, parts_.registry.Get(caller, id));
  Sandbox& sandbox = *found;
  auto metadata = sandbox.metadata;
  for (const auto& [name, value] : patch) {
    if (value) {
      metadata.insert_or_assign(name, *value);
    } else {
      metadata.erase(name);
    }
  }
  if (metadata.size() > std::max(kMaxMetadata, sandbox.metadata.size())) {
    return Fail(Code::kInvalidArgument, "metadata would have " + std::to_string(metadata.size()) +
                                            " entries: at most " + std::to_string(kMaxMetadata) +
                                            " are kept; remove some in the same request");
  }
  parts_.registry.SwapMetadata(sandbox, &metadata);
  Status done = parts_.registry.CheckName(sandbox);
  if (done && parts_.machine.IsRecorded(sandbox)) done = parts_.store.UpdateSpec(sandbox);
  if (!done) parts_.registry.SwapMetadata(sandbox, &metadata);
  return done;
}

Status Changes::SetPolicy(const tenants::Caller& caller, const std::string& id,
                          netpolicy::SharedPolicy policy) {
  ATOLL_ASSIGN(Sandbox * found, parts_.registry.Get(caller, id));
  Sandbox& sandbox = *found;
  if (!IsLive(sandbox.state)) {
    return Fail(Code::kNotFound, "sandbox " + id + " not found");
  }
  if (const SharedTerms terms = parts_.terms.Of(sandbox.tenant)) {
    if (terms->policy_locked) {
      return Fail(Error(Code::kPermissionDenied,
                        "the policies of tenant " + sandbox.tenant + " are locked: sandbox " + id +
                            " keeps the one of its create",
                        kByTerms));
    }
    ATOLL_TRY(terms->CheckPolicy(policy));
  }
  ATOLL_ASSIGN(auto egress, parts_.network.MakeReady(policy, sandbox.tenant));
  ATOLL_TRY(parts_.vaults.CheckPolicy(id, *egress));
  // Writes the record first: if the daemon dies in between, the next daemon enforces the new policy
  // from its start on.
  netpolicy::SharedPolicy& recorded = sandbox.spec.network.policy;
  std::swap(recorded, policy);
  Status stored = parts_.store.UpdateSpec(sandbox);
  if (!stored) {
    std::swap(recorded, policy);
    return stored;
  }
  Status set = parts_.network.SetPolicy(sandbox.slot, std::move(egress));
  if (set) return set;
  std::swap(recorded, policy);
  if (Status undone = parts_.store.UpdateSpec(sandbox); !undone) {
    LogLine(LogLevel::kError, "the record of a sandbox has a policy that could not be set")
        .Add("sandbox", id)
        .Add(undone.error());
  }
  return set;
}

Result<const vault::Vault*> Changes::FindVault(const tenants::Caller& caller,
                                               const std::string& id) const {
  const Sandbox* const sandbox = parts_.registry.Find(caller, id);
  if (sandbox == nullptr || !IsLive(sandbox->state)) {
    return Fail(Code::kNotFound, "sandbox " + id + " not found");
  }
  if (sandbox->authority.empty()) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + id +
                    " was created without credentialProxy: {\"enabled\": true}, so it does not "
                    "trust the certificate that the injection of credentials needs");
  }
  return parts_.vaults.Find(id);
}

void Changes::SetVault(const tenants::Caller& caller, const std::string& id, vault::Vault vault,
                       std::function<void(Status)> done) {
  if (auto found = FindVault(caller, id); !found) return done(Fail(found.error()));
  const Sandbox& sandbox = *parts_.registry.Find(caller, id);
  const netpolicy::SharedPolicy policy = parts_.network.PolicyOf(sandbox.slot);
  if (!policy) {
    return done(Fail(Code::kFailedPrecondition,
                     "sandbox " + id + " has no network policy to bind credentials to"));
  }
  auto egress = parts_.network.MakeReady(policy, sandbox.tenant);
  if (!egress) return done(Fail(egress.error()));
  if (Status covered = CheckCovered(vault, **egress); !covered) return done(covered);
  parts_.vaults.Set(sandbox, std::move(vault), std::move(done));
}

Status Changes::RemoveVault(const tenants::Caller& caller, const std::string& id) {
  ATOLL_TRY(FindVault(caller, id));
  parts_.vaults.Remove(id);
  return {};
}

}  // namespace atl::sandbox
