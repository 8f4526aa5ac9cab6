// What a client changes about a sandbox that lives: its deadline, its labels, its policy. Whether
// it runs: lifecycle_pause.cc.
#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
Status Lifecycle::Renew(const std::string& id, int64_t expires_at_ms) {
  ATOLL_ASSIGN(Entry * entry, Visible(id));
  if (expires_at_ms <= clock_.UnixMillis()) {
    return Fail(Code::kInvalidArgument, "expiresAt is not in the future");
  }
  if (!entry->sandbox.expires_at_ms) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + id + " was created without a timeout and never expires; delete it");
  }
  const auto before = std::exchange(entry->sandbox.expires_at_ms, expires_at_ms);
  if (IsRecorded(*entry)) {
    if (auto stored = store_.Update(entry->sandbox); !stored) {
      entry->sandbox.expires_at_ms = before;
      return stored;
    }
    SetDeadline(*entry);
  }
  Note(entry->sandbox, "Renewed");
  return {};
}

void Lifecycle::OpenSessions(const std::string& id) {
  const Entry* entry = Look(id);
  if (entry != nullptr) {
    sessions_.Open(HostId(entry->sandbox), SocketPathOf(id), entry->sandbox.access_token);
  }
}

void Lifecycle::Stopping(const std::string& id) {
  if (Entry* const entry = Look(id)) entry->stopping = true;
}

void Lifecycle::Touch(const std::string& id) {
  if (!config_.renew_interval_seconds) return;
  Entry* entry = Look(id);
  if (entry == nullptr || !entry->sandbox.spec.renew_by_seconds || !entry->sandbox.expires_at_ms ||
      entry->sandbox.state != State::kRunning) {
    return;
  }
  const int64_t now_ms = clock_.UnixMillis();
  // A wall clock that was set back must not stop renewals until it has caught up.
  const int64_t since_ms = now_ms - entry->touched_ms;
  if (since_ms >= 0 && since_ms < *config_.renew_interval_seconds * 1000) return;
  const int64_t until_ms = now_ms + *entry->sandbox.spec.renew_by_seconds * 1000;
  if (until_ms <= *entry->sandbox.expires_at_ms) return;
  if (auto renewed = Renew(id, until_ms); !renewed) {
    LogLine(LogLevel::kWarning, "cannot renew a sandbox that is being used")
        .Add("sandbox", id)
        .Add(renewed.error());
    return;
  }
  entry->touched_ms = now_ms;
}

Status Lifecycle::PatchMetadata(const std::string& id, const MetadataPatch& patch) {
  ATOLL_ASSIGN(Entry * entry, Visible(id));
  auto changed = entry->sandbox.metadata;
  for (const auto& [name, value] : patch) {
    if (value) {
      changed.insert_or_assign(name, *value);
    } else {
      changed.erase(name);
    }
  }
  if (changed.size() > std::max(kMaxMetadata, entry->sandbox.metadata.size())) {
    return Fail(Code::kInvalidArgument, "metadata would have " + std::to_string(changed.size()) +
                                            " entries: at most " + std::to_string(kMaxMetadata) +
                                            " are kept; remove some in the same request");
  }
  Sandbox& sandbox = entry->sandbox;
  names_.Remove(sandbox);
  changed.swap(sandbox.metadata);
  Status done = CheckName(sandbox);
  if (done && IsRecorded(*entry)) done = store_.UpdateSpec(sandbox);
  if (!done) changed.swap(sandbox.metadata);
  names_.Add(sandbox);
  return done;
}

Status Lifecycle::SetPolicy(const std::string& id, netpolicy::SharedPolicy policy) {
  ATOLL_ASSIGN(Entry * entry, Visible(id));
  if (!IsLive(entry->sandbox.state)) {
    return Fail(Code::kNotFound, "sandbox " + id + " does not exist");
  }
  ATOLL_ASSIGN(auto egress, network_.MakeReady(policy));
  ATOLL_TRY(vaults_.CheckPolicy(id, *egress));
  // The record first: a daemon that dies in between enforces the new policy from its next start on.
  netpolicy::SharedPolicy& recorded = entry->sandbox.spec.network.policy;
  std::swap(recorded, policy);
  Status stored = store_.UpdateSpec(entry->sandbox);
  if (!stored) {
    std::swap(recorded, policy);
    return stored;
  }
  Status set = network_.SetPolicy(entry->sandbox.slot, std::move(egress));
  if (set) return set;
  std::swap(recorded, policy);
  if (Status undone = store_.UpdateSpec(entry->sandbox); !undone) {
    LogLine(LogLevel::kError, "the record of a sandbox has a policy that could not be set")
        .Add("sandbox", id)
        .Add(undone.error());
  }
  return set;
}

Result<const vault::Vault*> Lifecycle::FindVault(const std::string& id) {
  ATOLL_ASSIGN(const Entry* entry, Visible(id));
  if (!IsLive(entry->sandbox.state)) {
    return Fail(Code::kNotFound, "sandbox " + id + " does not exist");
  }
  if (entry->sandbox.authority.empty()) {
    return Fail(
        Code::kFailedPrecondition,
        "sandbox " + id +
            " was created without credentialProxy: {\"enabled\": true}, and believes nobody "
            "who would put credentials into its connections");
  }
  return vaults_.Find(id);
}

void Lifecycle::SetVault(const std::string& id, vault::Vault vault, Settled done) {
  if (auto found = FindVault(id); !found) return done(Fail(found.error()));
  const Sandbox& sandbox = Look(id)->sandbox;
  const netpolicy::SharedPolicy policy = network_.PolicyOf(sandbox.slot);
  if (!policy) {
    return done(Fail(Code::kFailedPrecondition,
                     "sandbox " + id + " has no network policy to bind credentials to"));
  }
  auto egress = network_.MakeReady(policy);
  if (!egress) return done(Fail(egress.error()));
  if (Status covered = CheckCovered(vault, **egress); !covered) return done(covered);
  vaults_.Set(sandbox, std::move(vault), std::move(done));
}

void Lifecycle::SetDeadline(const Entry& entry) {
  const Sandbox& sandbox = entry.sandbox;
  if (sandbox.expires_at_ms) return expiry_.Set(sandbox.id, *sandbox.expires_at_ms);
  if (IsOver(sandbox.state) && config_.keep_ended_seconds) {
    expiry_.Set(sandbox.id, sandbox.transition_at_ms + *config_.keep_ended_seconds * 1000);
  }
}

}  // namespace atl::sandbox
