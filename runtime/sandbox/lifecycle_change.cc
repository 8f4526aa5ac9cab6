// What a client changes about a sandbox that lives: its deadline, its labels, whether it runs.
#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// How long a request waits for the next spawner.
constexpr int64_t kSpawnerPatienceUs = 5 * 1000 * 1000;

}  // namespace

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

void Lifecycle::Pause(const std::string& id, Settled done) {
  Switch(id, Event::kPause, "CONTAINER_PAUSING", "Its processes are being stopped",
         std::move(done));
}

void Lifecycle::Resume(const std::string& id, Settled done) {
  Switch(id, Event::kResume, "CONTAINER_RESUMING", "Its processes are being let go on",
         std::move(done));
}

void Lifecycle::Switch(const std::string& id, Event event, const char* reason, const char* message,
                       Settled done) {
  const auto entry = Visible(id);
  if (!entry) return done(Fail(entry.error()));
  // Before the event, whose answer may come at once.
  (*entry)->settled.push_back(done);
  if (auto applied = Apply(**entry, event, {reason, message}); !applied) {
    (*entry)->settled.pop_back();
    done(std::move(applied));
  }
}

void Lifecycle::AskFreeze(Entry& entry, bool frozen) {
  const std::string id = entry.sandbox.id;
  const uint64_t order = entry.freezing = ++orders_;
  spawner_.Ask(wire::Freeze{HostId(entry.sandbox), frozen}, [this, id, frozen,
                                                             order](const Status& status) {
    Entry* asked = Look(id);
    if (asked == nullptr || asked->freezing != order) return;
    if (!status && status.error().code() == Code::kUnavailable) {
      // Reconcile asks the next one, which after an upgrade is there at once. Else the request is
      // refused, and what is refused must not happen later: what the lost spawner may have done of
      // it, the next reconciliation sees and undoes.
      loop_.After(kSpawnerPatienceUs, [this, id, order, status] {
        Entry* still = Look(id);
        if (still == nullptr || still->freezing != order) return;
        Settle(*still, status);
        const bool paused = still->sandbox.state == State::kResuming;
        ApplyAnyway(*still, Event::kNotAsked,
                    paused ? Cause{"CONTAINER_PAUSED", "Sandbox is paused"}
                           : Cause{"CONTAINER_RUNNING", "Sandbox is running"});
      });
      return;
    }
    if (status) {
      return frozen
                 ? ApplyAnyway(*asked, Event::kFrozen, {"CONTAINER_PAUSED", "Sandbox is paused"})
                 : ApplyAnyway(*asked, Event::kThawed, {"CONTAINER_RUNNING", "Sandbox is running"});
    }
    LogLine(LogLevel::kError, frozen ? "cannot pause a sandbox" : "cannot resume a sandbox")
        .Add("sandbox", id)
        .Add(status.error());
    Settle(*asked,
           Fail(Error(Code::kInternal, status.error().message(), status.error().error_number())));
    ApplyAnyway(*asked, frozen ? Event::kFreezeFailed : Event::kThawFailed,
                {frozen ? "CONTAINER_RESUMING" : "CONTAINER_PAUSED",
                 WithoutPaths(status.error().message(), config_.private_directories)});
  });
}

void Lifecycle::Settle(Entry& entry, const Status& status) {
  for (const Settled& done : std::exchange(entry.settled, {})) done(status);
}

void Lifecycle::SetDeadline(const Entry& entry) {
  const Sandbox& sandbox = entry.sandbox;
  if (sandbox.expires_at_ms) return expiry_.Set(sandbox.id, *sandbox.expires_at_ms);
  if (IsOver(sandbox.state) && config_.keep_ended_seconds) {
    expiry_.Set(sandbox.id, sandbox.transition_at_ms + *config_.keep_ended_seconds * 1000);
  }
}

}  // namespace atl::sandbox
