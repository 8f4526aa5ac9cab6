#include "runtime/sandbox/state/machine.h"

#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {

void Machine::Does(Action action, Act act) {
  acts_[static_cast<size_t>(action)] = std::move(act);
}

Status Machine::Apply(Sandbox& sandbox, Event event, const Cause& cause) {
  const Transition transition = Next(sandbox.state, event);
  if (transition.action == Action::kBug) {
    LogLine(LogLevel::kError, "event in a state that does not have it")
        .Add("sandbox", sandbox.id)
        .Add("state", StateName(sandbox.state))
        .Add("event", EventName(event));
    return {};
  }
  if (transition.action == Action::kRefuse) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + sandbox.id + " is " + std::string(StateName(sandbox.state)) +
                    (sandbox.message.empty() ? "" : ": ") + sandbox.message);
  }
  const State before = sandbox.state;
  const int64_t before_ms = sandbox.transition_at_ms;
  std::optional<Cause> replaced = Enter(sandbox, transition.next, cause);
  if (Status written = Record(sandbox, before, transition.action); !written) {
    sandbox.state = before;
    sandbox.transition_at_ms = before_ms;
    if (replaced) {
      sandbox.reason = std::move(replaced->reason);
      sandbox.message = std::move(replaced->message);
    }
    return written;
  }
  Follow(sandbox, before, transition.action);
  return {};
}

void Machine::ApplyAnyway(Sandbox& sandbox, Event event, const Cause& cause) {
  auto applied = Apply(sandbox, event, cause);
  if (applied) return;
  LogLine(LogLevel::kError, "cannot record what happened to a sandbox; a restart will find it")
      .Add("sandbox", sandbox.id)
      .Add("event", EventName(event))
      .Add(applied.error());
  const State before = sandbox.state;
  const Transition transition = Next(before, event);
  Enter(sandbox, transition.next, cause);
  Follow(sandbox, before, transition.action);
}

std::optional<Cause> Machine::Enter(Sandbox& sandbox, State next, const Cause& cause) const {
  if (next == sandbox.state) return std::nullopt;
  if (IsLeaving(next) && IsOver(sandbox.state)) {
    const bool failed = sandbox.state == State::kFailing || sandbox.state == State::kFailed;
    sandbox.ended = {failed, sandbox.reason, sandbox.message, sandbox.transition_at_ms};
  }
  if (StateName(next) != StateName(sandbox.state)) sandbox.transition_at_ms = clock_.UnixMillis();
  sandbox.state = next;
  if (cause.reason.empty()) return std::nullopt;
  return Cause{std::exchange(sandbox.reason, cause.reason),
               std::exchange(sandbox.message, cause.message)};
}

Status Machine::Record(const Sandbox& sandbox, State before, Action action) {
  if (const auto owned = attempts_.find(&sandbox); owned != attempts_.end()) {
    if (action != Action::kPublish && action != Action::kWait) return {};
    return store_.Insert(sandbox, owned->second->key());
  }
  // A sandbox that waited for its image has got its layers only now.
  if (action == Action::kPublish) ATOLL_TRY(store_.UpdateSpec(sandbox));
  const bool shown = StateName(before) != StateName(sandbox.state);
  return shown || action == Action::kKeep ? store_.Update(sandbox) : Status();
}

void Machine::Follow(Sandbox& sandbox, State before, Action action) {
  for (const Watcher& watcher : watchers_) watcher(sandbox, before);
  if (HasEffect(action)) acts_[static_cast<size_t>(action)](sandbox);
}

void Machine::Own(const Sandbox& sandbox, std::shared_ptr<Attempt> attempt) {
  attempts_[&sandbox] = std::move(attempt);
}

std::shared_ptr<Attempt> Machine::AttemptOf(const Sandbox& sandbox) const {
  const auto found = attempts_.find(&sandbox);
  return found == attempts_.end() ? nullptr : found->second;
}

std::shared_ptr<Attempt> Machine::TakeAttempt(const Sandbox& sandbox) {
  const auto node = attempts_.extract(&sandbox);
  return node.empty() ? nullptr : std::move(node.mapped());
}

void Machine::Acknowledge(const Sandbox& sandbox) {
  const std::shared_ptr<Attempt> attempt = TakeAttempt(sandbox);
  if (attempt == nullptr) return;
  attempt->Commit();
  attempt->Answer();
}

}  // namespace atl::sandbox
