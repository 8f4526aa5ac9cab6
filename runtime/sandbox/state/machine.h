// The state machine of all sandboxes: the only writer of their states. It looks an event up in the
// table of states.h, has the store hold the new state before anybody hears of it, tells the
// watchers in their order, and has the table's action done. What an action does, and who watches,
// is registered in one place (sandboxes.cc).
//
// Thread rule: on the loop; nothing blocks but the write of one row.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/record/states.h"
#include "runtime/sandbox/state/attempt.h"
#include "runtime/sandbox/store/store.h"

namespace atl::sandbox {

// The cause of a state, as the record shows it. Empty: that of the state before.
struct Cause {
  std::string reason;
  std::string message;
};

inline Cause RunningCause() {
  return {"CONTAINER_RUNNING", "Sandbox is running"};
}

class Machine {
 public:
  // Both outlive it.
  Machine(const Clock& clock, Store& store) : clock_(clock), store_(store) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Before the first event: one for each action that HasEffect. The sandbox may be gone when `act`
  // returns.
  using Act = std::function<void(Sandbox& sandbox)>;
  void Does(Action action, Act act);
  // Called, in the order of registration, behind the store and before the action, also when the
  // state is the one before. A watcher neither applies events nor answers clients.
  using Watcher = std::function<void(Sandbox& sandbox, State before)>;
  void Watch(Watcher watcher) { watchers_.push_back(std::move(watcher)); }

  // Does what the table says for `event`. The new state is in the store before anything follows
  // from it; if it cannot be written, nothing has changed. kFailedPrecondition: the table refuses
  // the event. The sandbox may be gone afterwards.
  Status Apply(Sandbox& sandbox, Event event, const Cause& cause);
  // For what has happened whether or not it could be written down.
  void ApplyAnyway(Sandbox& sandbox, Event event, const Cause& cause);

  // For records that are written together with others: the new state in memory alone, for a copy
  // of the sandbox; and, once the store has it, what follows from it. Enter returns the cause that
  // it has replaced, if it has replaced one.
  std::optional<Cause> Enter(Sandbox& sandbox, State next, const Cause& cause) const;
  void Follow(Sandbox& sandbox, State before, Action action);

  // From here until TakeAttempt the sandbox is its attempt's: the store has no row of it, and the
  // first that is written has the attempt's key beside it.
  void Own(const Sandbox& sandbox, std::shared_ptr<Attempt> attempt);
  // Null: the store has its record.
  std::shared_ptr<Attempt> AttemptOf(const Sandbox& sandbox) const;
  std::shared_ptr<Attempt> TakeAttempt(const Sandbox& sandbox);
  bool IsRecorded(const Sandbox& sandbox) const { return !attempts_.contains(&sandbox); }
  // Its record is in the store: nothing of it is taken back any more, and its request is answered.
  void Acknowledge(const Sandbox& sandbox);

 private:
  Status Record(const Sandbox& sandbox, State before, Action action);

  const Clock& clock_;
  Store& store_;
  std::array<Act, kActions> acts_;
  std::vector<Watcher> watchers_;
  std::unordered_map<const Sandbox*, std::shared_ptr<Attempt>> attempts_;
};

}  // namespace atl::sandbox
