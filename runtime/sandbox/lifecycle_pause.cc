// Whether a sandbox that lives runs or stands still: because a client asked, or because nobody used
// it, and then until somebody does.
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// How long a request waits for the next spawner.
constexpr int64_t kSpawnerPatienceUs = 5 * 1000 * 1000;

constexpr char kPausingText[] = "Its processes are being stopped";
constexpr char kResumingText[] = "Its processes are being let go on";

}  // namespace

void Lifecycle::Pause(const std::string& id, Settled done) {
  const auto entry = Visible(id);
  if (entry && Wakes((*entry)->sandbox) && (*entry)->sandbox.state != State::kResuming) {
    return TakeOver(**entry, std::move(done));
  }
  Switch(id, Event::kPause, "CONTAINER_PAUSING", kPausingText, [this, done](const Status& paused) {
    if (paused) ++stats_.paused;
    done(paused);
  });
}

void Lifecycle::Resume(const std::string& id, Settled done) {
  Switch(id, Event::kResume, "CONTAINER_RESUMING", kResumingText, [this, id, done](Status resumed) {
    // Whatever becomes of the requests that were open when it was paused.
    if (resumed) Use(id);
    done(std::move(resumed));
  });
}

void Lifecycle::TakeOver(Entry& entry, Settled done) {
  Sandbox& sandbox = entry.sandbox;
  const bool paused = sandbox.state == State::kPaused;
  const std::string reason =
      std::exchange(sandbox.reason, paused ? "CONTAINER_PAUSED" : "CONTAINER_PAUSING");
  const std::string message =
      std::exchange(sandbox.message, paused ? "Sandbox is paused" : kPausingText);
  if (Status stored = store_.Update(sandbox); !stored) {
    sandbox.reason = reason;
    sandbox.message = message;
    return done(std::move(stored));
  }
  Note(sandbox, std::string(StateName(sandbox.state)));
  const auto counted = [this, done = std::move(done)](const Status& status) {
    if (status) ++stats_.paused;
    done(status);
  };
  if (paused) return counted({});
  entry.settled.push_back(counted);
}

void Lifecycle::Wake(const std::string& id, Settled done) {
  const auto visible = Visible(id);
  if (!visible) return done(Fail(visible.error()));
  Entry& entry = **visible;
  const Sandbox& sandbox = entry.sandbox;
  if (sandbox.state == State::kRunning) return done({});
  if (!Wakes(sandbox)) {
    return done(Fail(Code::kFailedPrecondition,
                     "sandbox " + id + " is " + std::string(StateName(sandbox.state))));
  }
  if (sandbox.state == State::kPaused) {
    return Switch(id, Event::kResume, kIdleResuming, "A request lets it go on",
                  [this, done = std::move(done)](const Status& resumed) {
                    if (resumed) ++stats_.woken;
                    done(resumed);
                  });
  }
  if (sandbox.state == State::kResuming) return entry.settled.push_back(std::move(done));
  // On its way to the pause, which has to end first, whichever way: what follows from that is done
  // behind the answer.
  entry.settled.push_back([this, id, done = std::move(done)](const Status&) {
    loop_.Post([this, id, done, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) Wake(id, done);
    });
  });
}

std::shared_ptr<IdleWatch::Request> Lifecycle::OpenRequest(const std::string& id) {
  const Entry* entry = Look(id);
  return entry != nullptr && entry->sandbox.spec.idle ? idle_.Open(id) : nullptr;
}

std::shared_ptr<const void> Lifecycle::Use(const std::string& id) {
  const auto request = OpenRequest(id);
  if (request) request->Count();
  return request;
}

void Lifecycle::WatchIdle(const Entry& entry, State before) {
  const Sandbox& sandbox = entry.sandbox;
  if (!sandbox.spec.idle || (sandbox.state == State::kRunning) == (before == State::kRunning)) {
    return;
  }
  if (before == State::kRunning) return idle_.Rest(sandbox.id);
  idle_.Watch(sandbox.id, sandbox.slot, sandbox.spec.idle->after_seconds);
}

void Lifecycle::OnIdle(const std::string& id) {
  Entry* const entry = Look(id);
  if (entry == nullptr) return;
  const IdlePolicy policy = *entry->sandbox.spec.idle;
  const std::string why =
      "Nobody has used it for " + std::to_string(policy.after_seconds) + " seconds";
  LogLine(LogLevel::kInfo, policy.ends ? "idle sandbox ended" : "idle sandbox paused")
      .Add("sandbox", id);
  if (policy.ends) {
    return ApplyAnyway(*entry, Event::kExpire, {"IDLE_ENDED", why});
  }
  // What could not be recorded is tried again when it has been idle for as long once more.
  idle_.Watch(id, entry->sandbox.slot, policy.after_seconds);
  Switch(id, Event::kPause, kIdlePausing, why.c_str(), [this, id](const Status& paused) {
    if (paused) {
      ++stats_.idle_paused;
      return;
    }
    LogLine(LogLevel::kWarning, "cannot pause an idle sandbox")
        .Add("sandbox", id)
        .Add(paused.error());
  });
}

void Lifecycle::Switch(const std::string& id, Event event, const char* reason, const char* message,
                       Settled done) {
  const auto entry = Visible(id);
  if (!entry) return done(Fail(entry.error()));
  SwitchEntry(**entry, event, reason, message, done);
}

void Lifecycle::SwitchEntry(Entry& entry, Event event, const char* reason, const char* message,
                            const Settled& done) {
  // Before the event, whose answer may come at once.
  entry.settled.push_back(done);
  if (auto applied = Apply(entry, event, {reason, message}); !applied) {
    entry.settled.pop_back();
    done(std::move(applied));
  }
}

void Lifecycle::AskFreeze(Entry& entry, bool frozen) {
  const std::string id = entry.sandbox.id;
  const uint64_t order = entry.freezing = ++orders_;
  entry.freeze_asked_us = clock_.BootMicros();
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
                    paused ? PausedCause(still->sandbox)
                           : Cause{"CONTAINER_RUNNING", "Sandbox is running"});
      });
      return;
    }
    if (status && !frozen) {
      const int64_t took_us = clock_.BootMicros() - asked->freeze_asked_us;
      stats_.resume_seconds.Record(static_cast<double>(took_us) / 1e6, kSecondsBounds);
      return ApplyAnyway(*asked, Event::kThawed, {"CONTAINER_RUNNING", "Sandbox is running"});
    }
    if (status) {
      ApplyAnyway(*asked, Event::kFrozen, PausedCause(asked->sandbox));
      Entry* const still = Look(id);
      if (still != nullptr && still->freezing == order) AskReclaim(*still);
      return;
    }
    LogLine(LogLevel::kError, frozen ? "cannot pause a sandbox" : "cannot resume a sandbox")
        .Add("sandbox", id)
        .Add(status.error());
    Settle(*asked,
           Fail(Error(Code::kInternal, status.error().message(), status.error().error_number())));
    Cause cause = PausedCause(asked->sandbox);
    if (frozen) cause.reason = IsIdleReason(cause.reason) ? kIdleResuming : "CONTAINER_RESUMING";
    cause.message = WithoutPaths(status.error().message(), config_.private_directories);
    ApplyAnyway(*asked, frozen ? Event::kFreezeFailed : Event::kThawFailed, cause);
  });
}

Lifecycle::Cause Lifecycle::PausedCause(const Sandbox& sandbox) {
  if (!IsIdleReason(sandbox.reason)) return {"CONTAINER_PAUSED", "Sandbox is paused"};
  return {kIdlePaused, "Sandbox is paused, as nobody used it; the next request lets it go on"};
}

void Lifecycle::Settle(Entry& entry, const Status& status) {
  for (const Settled& done : std::exchange(entry.settled, {})) done(status);
}

}  // namespace atl::sandbox
