#include "runtime/sandbox/live/pauses.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {
namespace {

// How long a request waits for the next spawner.
constexpr int64_t kSpawnerPatienceUs = 5 * 1000 * 1000;

constexpr char kPausingText[] = "Its processes are being stopped";
constexpr char kResumingText[] = "Its processes are being let go on";

// Returns the cause that a paused sandbox shows: the idle policy or a client.
Cause PausedCause(const Sandbox& sandbox) {
  if (!IsIdleReason(sandbox.reason)) return {"CONTAINER_PAUSED", "Sandbox is paused"};
  return {kIdlePaused, "Sandbox is paused, as nobody used it; the next request lets it go on"};
}

}  // namespace

Pauses::Pauses(const Parts& parts, Settings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      idle_(parts_.loop, parts_.clock, settings_.cpu_micros,
            [this](const std::string& id) { OnIdle(id); }) {
  parts_.registry.OnRemove([this](const Sandbox& sandbox) {
    idle_.Forget(sandbox.id);
    orders_of_.erase(&sandbox);
  });
}

void Pauses::Pause(const tenants::Caller& caller, const std::string& id, Settled done) {
  const auto found = parts_.registry.Get(caller, id);
  if (found && Wakes(**found) && (*found)->state != State::kResuming) {
    return TakeOver(**found, std::move(done));
  }
  SwitchVisible(caller, id, Event::kPause, "CONTAINER_PAUSING", kPausingText,
                [this, done = std::move(done)](const Status& paused) {
                  if (paused) ++stats_.paused;
                  done(paused);
                });
}

void Pauses::Resume(const tenants::Caller& caller, const std::string& id, Settled done) {
  SwitchVisible(caller, id, Event::kResume, "CONTAINER_RESUMING", kResumingText,
                [this, id, done = std::move(done)](const Status& resumed) {
                  // A client's resume counts as use, whatever happens to the requests that were
                  // open during the pause.
                  const Sandbox* const sandbox = parts_.registry.Look(id);
                  if (resumed && sandbox != nullptr) Use(*sandbox);
                  done(resumed);
                });
}

void Pauses::TakeOver(Sandbox& sandbox, Settled done) {
  const bool paused = sandbox.state == State::kPaused;
  const std::string reason =
      std::exchange(sandbox.reason, paused ? "CONTAINER_PAUSED" : "CONTAINER_PAUSING");
  const std::string message =
      std::exchange(sandbox.message, paused ? "Sandbox is paused" : kPausingText);
  if (Status stored = parts_.store.Update(sandbox); !stored) {
    sandbox.reason = reason;
    sandbox.message = message;
    return done(std::move(stored));
  }
  parts_.history.Note(sandbox, parts_.clock.UnixMillis());
  const auto counted = [this, done = std::move(done)](const Status& status) {
    if (status) ++stats_.paused;
    done(status);
  };
  if (paused) return counted({});
  parts_.waiters.Add(sandbox, counted);
}

void Pauses::Wake(const tenants::Caller& caller, const std::string& id, Settled done) {
  const auto found = parts_.registry.Get(caller, id);
  if (!found) return done(Fail(found.error()));
  Sandbox& sandbox = **found;
  if (sandbox.state == State::kRunning) return done({});
  if (!Wakes(sandbox)) {
    return done(Fail(Code::kFailedPrecondition,
                     "sandbox " + id + " is " + std::string(StateName(sandbox.state))));
  }
  if (sandbox.state == State::kPaused) {
    return Switch(sandbox, Event::kResume, kIdleResuming, "A request lets it go on",
                  [this, done = std::move(done)](const Status& resumed) {
                    if (resumed) ++stats_.woken;
                    done(resumed);
                  });
  }
  if (sandbox.state == State::kResuming) return parts_.waiters.Add(sandbox, std::move(done));
  // The sandbox is on its way to the pause, which has to end first, with or without success. The
  // wake-up runs after the answer to that pause.
  parts_.waiters.Add(sandbox, [this, caller, id, done = std::move(done)](const Status&) {
    parts_.loop.Post(guard_([this, caller, id, done] { Wake(caller, id, done); }));
  });
}

std::shared_ptr<IdleWatch::Request> Pauses::OpenRequest(const Sandbox& sandbox) {
  return sandbox.spec.idle ? idle_.Open(sandbox.id) : nullptr;
}

std::shared_ptr<const void> Pauses::Use(const Sandbox& sandbox) {
  const auto request = OpenRequest(sandbox);
  if (request) request->Count();
  return request;
}

void Pauses::Rest(Sandbox& member, Settled done) {
  Switch(member, Event::kPause, kIdlePausing, "It waits for a create of its template", done);
}

void Pauses::Claim(Sandbox& member, Settled done) {
  Switch(member, Event::kResume, kIdleResuming, "A create has claimed it", done);
}

void Pauses::OnTransition(Sandbox& sandbox, State before) {
  if (sandbox.spec.idle && (sandbox.state == State::kRunning) != (before == State::kRunning)) {
    before == State::kRunning ? idle_.Rest(sandbox.id) : WatchIdle(sandbox);
  }
  if (sandbox.state == State::kPausing && before != State::kPausing) sandbox.reclaimed_bytes = 0;
  // Orders for the old version of a sandbox no longer count.
  if (sandbox.state == State::kReplacing && before != State::kReplacing) {
    orders_of_.erase(&sandbox);
  }
}

void Pauses::WatchIdle(const Sandbox& sandbox) {
  if (!sandbox.spec.idle || sandbox.state != State::kRunning) return;
  idle_.Watch(sandbox.id, sandbox.slot, sandbox.spec.idle->after_seconds);
}

void Pauses::OnIdle(const std::string& id) {
  Sandbox* const sandbox = parts_.registry.Look(id);
  if (sandbox == nullptr) return;
  const IdlePolicy policy = *sandbox->spec.idle;
  const std::string why =
      "Nobody has used it for " + std::to_string(policy.after_seconds) + " seconds";
  LogLine(LogLevel::kInfo, policy.ends ? "idle sandbox ended" : "idle sandbox paused")
      .Add("sandbox", id);
  if (policy.ends) {
    return parts_.machine.ApplyAnyway(*sandbox, Event::kExpire, {"IDLE_ENDED", why});
  }
  // If the pause cannot be recorded, the watch tries again after another idle time.
  idle_.Watch(id, sandbox->slot, policy.after_seconds);
  const Settled counted = [this, id](const Status& paused) {
    if (paused) {
      ++stats_.idle_paused;
      return;
    }
    LogLine(LogLevel::kWarning, "cannot pause an idle sandbox")
        .Add("sandbox", id)
        .Add(paused.error());
  };
  SwitchVisible(tenants::Caller::Daemon(), id, Event::kPause, kIdlePausing, why.c_str(), counted);
}

void Pauses::SwitchVisible(const tenants::Caller& caller, const std::string& id, Event event,
                           const char* reason, const char* message, const Settled& done) {
  const auto found = parts_.registry.Get(caller, id);
  if (!found) return done(Fail(found.error()));
  Switch(**found, event, reason, message, done);
}

void Pauses::Switch(Sandbox& sandbox, Event event, const char* reason, const char* message,
                    const Settled& done) {
  if (event == Event::kPause) {
    if (Status stands = CheckStands(sandbox.spec); !stands) return done(std::move(stands));
  }
  // Adds the waiter before the event, whose answer may come at once.
  parts_.waiters.Add(sandbox, done);
  if (auto applied = parts_.machine.Apply(sandbox, event, {reason, message}); !applied) {
    parts_.waiters.TakeBack(sandbox);
    done(std::move(applied));
  }
}

Sandbox* Pauses::Asked(const std::string& id, uint64_t order) {
  Sandbox* const sandbox = parts_.registry.Look(id);
  return sandbox != nullptr && OrderOf(*sandbox) == order ? sandbox : nullptr;
}

uint64_t Pauses::OrderOf(const Sandbox& sandbox) const {
  const auto found = orders_of_.find(&sandbox);
  return found == orders_of_.end() ? 0 : found->second.order;
}

void Pauses::Ask(const Sandbox& sandbox, bool frozen) {
  const uint64_t order = ++orders_;
  orders_of_[&sandbox] = {order, parts_.clock.BootMicros()};
  parts_.spawner.Ask(wire::Freeze{HostId(sandbox), frozen},
                     [this, id = sandbox.id, order, frozen](const Status& status) {
                       Answered(id, order, frozen, status);
                     });
}

void Pauses::Answered(const std::string& id, uint64_t order, bool frozen, const Status& status) {
  Sandbox* const asked = Asked(id, order);
  if (asked == nullptr) return;
  Machine& machine = parts_.machine;
  if (!status && status.error().code() == Code::kUnavailable) {
    // The reconciler asks the next spawner, which after an upgrade exists at once. Otherwise the
    // request is refused, and a refused request must not take effect later: the next reconciliation
    // finds and undoes what the lost spawner may have done.
    parts_.loop.After(kSpawnerPatienceUs,
                      guard_([this, id, order, status] { NotAsked(id, order, status); }));
    return;
  }
  if (status && !frozen) {
    const int64_t took_us = parts_.clock.BootMicros() - orders_of_.at(asked).asked_us;
    stats_.resume_seconds.Record(static_cast<double>(took_us) / 1e6, kSecondsBounds);
    return machine.ApplyAnyway(*asked, Event::kThawed, RunningCause());
  }
  if (status) {
    machine.ApplyAnyway(*asked, Event::kFrozen, PausedCause(*asked));
    // Runs after the answer to the pause, which stays valid whether or not the reclaim succeeds.
    if (const Sandbox* const still = Asked(id, order)) AskReclaim(*still);
    return;
  }
  LogLine(LogLevel::kError, frozen ? "cannot pause a sandbox" : "cannot resume a sandbox")
      .Add("sandbox", id)
      .Add(status.error());
  parts_.waiters.Settle(*asked, Fail(Error(Code::kInternal, status.error().message(),
                                           status.error().error_number())));
  Cause cause = PausedCause(*asked);
  if (frozen) cause.reason = IsIdleReason(cause.reason) ? kIdleResuming : "CONTAINER_RESUMING";
  cause.message = WithoutPaths(status.error().message(), settings_.private_directories);
  machine.ApplyAnyway(*asked, frozen ? Event::kFreezeFailed : Event::kThawFailed, cause);
}

void Pauses::NotAsked(const std::string& id, uint64_t order, const Status& status) {
  Sandbox* const still = Asked(id, order);
  if (still == nullptr) return;
  parts_.waiters.Settle(*still, status);
  const bool paused = still->state == State::kResuming;
  parts_.machine.ApplyAnyway(*still, Event::kNotAsked,
                             paused ? PausedCause(*still) : RunningCause());
}

void Pauses::AskReclaim(const Sandbox& sandbox) {
  if (sandbox.state != State::kPaused || !sandbox.spec.reclaims) return;
  parts_.spawner.Ask(
      wire::Reclaim{HostId(sandbox)},
      [this, id = sandbox.id, order = OrderOf(sandbox)](const Result<wire::Reclaimed>& reclaimed) {
        Reclaimed(id, order, reclaimed);
      });
}

void Pauses::Reclaimed(const std::string& id, uint64_t order,
                       const Result<wire::Reclaimed>& reclaimed) {
  Sandbox* const asked = Asked(id, order);
  if (asked == nullptr || asked->state != State::kPaused) return;
  Sandbox& sandbox = *asked;
  // The spawner is gone: the reconciler asks the next one.
  if (!reclaimed && reclaimed.error().code() == Code::kUnavailable) return;
  if (reclaimed) {
    const bool news = sandbox.reclaimed_bytes == 0;
    sandbox.reclaimed_bytes = reclaimed->swapped_bytes;
    if (news) {
      ++stats_.reclaimed;
      stats_.reclaimed_bytes += reclaimed->swapped_bytes;
    }
    LogLine(LogLevel::kInfo, "memory of a paused sandbox is in swap")
        .Add("sandbox", id)
        .Add("bytes", reclaimed->swapped_bytes)
        .Add("resident", reclaimed->resident_bytes);
  } else {
    ++stats_.kept;
    const std::string why =
        WithoutPaths(reclaimed.error().message(), settings_.private_directories);
    sandbox.message = PausedCause(sandbox).message + "; its memory is kept: " + why;
    LogLine(LogLevel::kWarning, "a paused sandbox keeps its memory")
        .Add("sandbox", id)
        .Add(reclaimed.error());
    parts_.history.Note(sandbox, "MemoryKept", parts_.clock.UnixMillis());
  }
  const Status stored = parts_.store.Update(sandbox);
  // A restarted daemon gets the number again.
  if (!stored) LogLine(LogLevel::kWarning, "cannot record").Add("sandbox", id).Add(stored.error());
}

}  // namespace atl::sandbox
