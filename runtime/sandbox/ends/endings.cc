#include "runtime/sandbox/ends/endings.h"

#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "runtime/base/log.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/ends/departures.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kDestroyRetryUs = 5000 * 1000;

std::string ExitText(const wire::SandboxRecord& record) {
  std::string text;
  if (!record.code_known) {
    text = "process 1 ended while nothing watched it; its exit code is not known";
  } else if (WIFSTOPPED(record.wait_status)) {
    text = "execd, process 1, was stopped by signal " +
           std::to_string(WSTOPSIG(record.wait_status)) + " and answered nobody; it was killed";
  } else if (WIFEXITED(record.wait_status)) {
    text = "exit code " + std::to_string(WEXITSTATUS(record.wait_status));
  } else {
    text = "process 1 was killed by signal " + std::to_string(WTERMSIG(record.wait_status));
  }
  if (record.oom_killed) text += "; the sandbox was out of memory";
  return text;
}

CreateError Deleted(const std::string& text) {
  return CreateError(Error(Code::kFailedPrecondition, text));
}

}  // namespace

Endings::Endings(const Parts& parts) : parts_(parts) {
  parts_.registry.OnRemove([this](const Sandbox& sandbox) {
    stopping_.erase(&sandbox);
    releases_.erase(&sandbox);
  });
}

Status Endings::Delete(const tenants::Caller& caller, const std::string& id) {
  ATOLL_ASSIGN(Sandbox * sandbox, parts_.registry.Get(caller, id));
  return parts_.machine.Apply(*sandbox, Event::kDelete, {"USER_DELETE", "deleted by request"});
}

void Endings::Stopping(const tenants::Caller& caller, const std::string& id) {
  if (const Sandbox* const sandbox = parts_.registry.Find(caller, id)) stopping_.insert(sandbox);
}

void Endings::AwaitEnd(const tenants::Caller& caller, const std::string& id,
                       std::function<void()> then) {
  constexpr int64_t kEndUs = 1'000'000;
  AwaitEndUntil(caller, id, parts_.clock.BootMicros() + kEndUs, std::move(then));
}

void Endings::AwaitEndUntil(const tenants::Caller& caller, const std::string& id,
                            int64_t deadline_us, std::function<void()> then) {
  constexpr int64_t kLookUs = 5'000;
  const Sandbox* const sandbox = parts_.registry.Find(caller, id);
  const bool over = sandbox == nullptr || !IsLive(sandbox->state);
  if (over || parts_.clock.BootMicros() >= deadline_us) return then();
  parts_.loop.After(kLookUs, guard_([this, caller, id, deadline_us, then = std::move(then)] {
                      AwaitEndUntil(caller, id, deadline_us, then);
                    }));
}

void Endings::Expire(const std::string& id) {
  Sandbox* const sandbox = parts_.registry.Look(id);
  if (sandbox == nullptr) return;
  LogLine(LogLevel::kInfo, "sandbox expired").Add("sandbox", id);
  parts_.machine.ApplyAnyway(*sandbox, Event::kExpire, {"EXPIRED", "its time to live is over"});
}

void Endings::Exited(Sandbox& sandbox, const wire::SandboxRecord& record) {
  const bool ended = record.code_known && WIFEXITED(record.wait_status) && !record.oom_killed;
  const bool stopped = ended && stopping_.contains(&sandbox);
  const bool clean = ended && (stopped || WEXITSTATUS(record.wait_status) == 0);
  const Event event = clean ? Event::kExitedZero : Event::kExitedError;
  if (Next(sandbox.state, event).action == Action::kDefer) {
    return parts_.launches.Find(sandbox)->KeepExit(record);
  }
  const bool live = IsLive(sandbox.state);
  if (live) {
    if (parts_.launches.EndByReport(sandbox)) return;
    LogLine(LogLevel::kInfo, "sandbox ended")
        .Add("sandbox", sandbox.id)
        .Add("how", ExitText(record));
  }
  oom_killed_ = live && record.oom_killed ? &sandbox : nullptr;
  parts_.machine.ApplyAnyway(sandbox, event,
                             {stopped ? "CONTAINER_STOPPED"
                              : clean ? "CONTAINER_EXITED"
                                      : "CONTAINER_EXITED_ERROR",
                              ExitText(record)});
  oom_killed_ = nullptr;
}

void Endings::OnTransition(const Sandbox& sandbox, State before) {
  const auto is_there = [](State state) { return !IsOver(state) && !IsLeaving(state); };
  if (is_there(before) && !is_there(sandbox.state) && !sandbox.stocked &&
      parts_.machine.IsRecorded(sandbox)) {
    Count(sandbox);
  }
  // A client's request to end the old version no longer counts.
  if (sandbox.state == State::kReplacing && before != State::kReplacing) stopping_.erase(&sandbox);
}

void Endings::Count(const Sandbox& sandbox) {
  static constexpr std::pair<std::string_view, End> kReasons[] = {
      {"CONTAINER_EXITED", End::kExit},
      {"CONTAINER_STOPPED", End::kStopped},
      {"ENTRYPOINT_START_FAILED", End::kFailed},
      {"PROVISIONING_ERROR", End::kFailed},
      {"USER_DELETE", End::kDeleted},
      {"EXPIRED", End::kExpired},
      {"IDLE_ENDED", End::kIdle},
      {"SANDBOX_LOST", End::kLost}};
  End end = End::kError;
  for (const auto& [reason, means] : kReasons) {
    if (sandbox.reason == reason) end = means;
  }
  if (oom_killed_ == &sandbox) end = End::kOom;
  ++ends_[static_cast<size_t>(end)];
}

void Endings::Release(Sandbox& sandbox) {
  const std::string id = sandbox.id;
  if (parts_.launches.Take(sandbox)) parts_.logs.Abandon(HostId(sandbox));
  if (const auto attempt = parts_.machine.TakeAttempt(sandbox)) {
    attempt->Fail(Deleted("sandbox " + id + " was deleted while it was created"));
  }
  parts_.waiters.Settle(sandbox,
                        Fail(Code::kFailedPrecondition, "sandbox " + id + " has ended meanwhile"));
  parts_.vaults.Remove(id);
  ::unlink(parts_.registry.SocketPathOf(id).c_str());
  const auto [release, first] = releases_.try_emplace(&sandbox);
  if (first) {
    release->second.asked_us = parts_.clock.BootMicros();
    KeepDenials(sandbox);
  }
  const uint64_t order = release->second.order = ++orders_;
  parts_.spawner.Ask(wire::Destroy{.id = HostId(sandbox), .keep_reading = destroyed_ != nullptr},
                     [this, id, order](const Result<wire::Destroyed>& destroyed) {
                       Destroyed(id, order, destroyed);
                     });
}

void Endings::Destroyed(const std::string& id, uint64_t order,
                        const Result<wire::Destroyed>& destroyed) {
  const auto ordered = [this, order](const Sandbox* sandbox) {
    const auto found = releases_.find(sandbox);
    return found != releases_.end() && found->second.order == order;
  };
  Sandbox* const sandbox = parts_.registry.Look(id);
  if (sandbox == nullptr || !ordered(sandbox)) return;
  if (!destroyed) {
    // Without a spawner, the reconciler may ask the next one first.
    if (destroyed.error().code() != Code::kUnavailable) {
      LogLine(LogLevel::kError, "cannot destroy a sandbox; trying again")
          .Add("sandbox", id)
          .Add(destroyed.error());
    }
    parts_.loop.After(kDestroyRetryUs, guard_([this, id, ordered] {
                        Sandbox* const again = parts_.registry.Look(id);
                        if (again != nullptr && ordered(again)) Release(*again);
                      }));
    return;
  }
  releases_.erase(sandbox);
  parts_.counts.Close(*sandbox, destroyed->reading);
  if (destroyed_) destroyed_(HostId(*sandbox), destroyed->reading);
  ++removed_;
  if (const uint32_t slot = std::exchange(sandbox->slot, 0); slot != 0) parts_.slots.Release(slot);
  parts_.machine.ApplyAnyway(*sandbox, Event::kReleased, {});
}

void Endings::Forget(Sandbox& sandbox) {
  const std::string id = sandbox.id;
  const bool recorded = parts_.machine.IsRecorded(sandbox);
  parts_.launches.Take(sandbox);
  const auto attempt = parts_.machine.TakeAttempt(sandbox);
  parts_.waiters.Settle(
      sandbox, Fail(Code::kFailedPrecondition, "sandbox " + id + " was deleted meanwhile"));
  if (recorded) {
    Leave(sandbox);
  } else {
    parts_.logs.Remove(HostId(sandbox));
    parts_.history.Remove(id);
  }
  parts_.registry.Remove(sandbox);
  // Released after the record, because until the record is gone a restarted daemon would still find
  // this user of the volumes.
  parts_.volumes.Release(id);
  parts_.objects.Forget(id);
  if (attempt) attempt->Fail(Deleted("sandbox " + id + " was deleted before it was built"));
}

void Endings::Leave(const Sandbox& sandbox) {
  const Status left = parts_.departures.Leave(sandbox);
  if (left) return;
  // A row that cannot be removed says Stopping, and the next start finishes the removal.
  LogLine(LogLevel::kWarning, "cannot remove the record of a deleted sandbox")
      .Add("sandbox", sandbox.id)
      .Add(left.error());
}

void Endings::LeaveByShutdown(Sandbox& sandbox) {
  if (!parts_.machine.IsRecorded(sandbox)) return;
  if (!IsOver(sandbox.state) && !IsLeaving(sandbox.state)) {
    KeepDenials(sandbox);
    sandbox.reason = "SHUTDOWN";
    sandbox.message = "the daemon was shut down together with its sandboxes";
    sandbox.transition_at_ms = parts_.clock.UnixMillis();
    if (!sandbox.stocked) {
      parts_.history.Add(
          sandbox, {sandbox.transition_at_ms, kDeletedEvent, sandbox.reason, sandbox.message});
    }
  }
  Leave(sandbox);
}

void Endings::KeepDenials(Sandbox& sandbox) {
  if (sandbox.slot == 0 || sandbox.stocked) return;
  // After a restart of the daemon the network has none, and the record has those of before.
  auto denials = parts_.network.DenialsOf(sandbox.slot);
  if (denials.empty()) return;
  sandbox.denials = std::move(denials);
  if (const Status written = parts_.store.Update(sandbox); !written) {
    LogLine(LogLevel::kWarning, "cannot record the denials of a sandbox")
        .Add("sandbox", sandbox.id)
        .Add(written.error());
  }
}

uint64_t Endings::CountReleasing(int64_t longer_than_us) const {
  const int64_t before_us = parts_.clock.BootMicros() - longer_than_us;
  uint64_t count = 0;
  for (const auto& [sandbox, release] : releases_) count += release.asked_us < before_us ? 1 : 0;
  return count;
}

}  // namespace atl::sandbox
