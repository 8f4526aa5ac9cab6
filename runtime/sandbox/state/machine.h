// The state machine of all sandboxes, and the only writer of their states. It looks up an event in
// the table of states.h, writes the new state to the store before anybody learns of it, calls the
// watchers in order, and runs the table's action. sandboxes.cc registers all actions and watchers.
//
// Thread rule: on the loop. The only blocking call is the write of one row.
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

// The cause of a state, as the record shows it. Empty: the cause of the previous state stays.
struct Cause {
  std::string reason;
  std::string message;
};

inline Cause RunningCause() {
  return {"CONTAINER_RUNNING", "Sandbox is running"};
}

class Machine {
 public:
  // Both arguments outlive this object.
  Machine(const Clock& clock, Store& store) : clock_(clock), store_(store) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Registers the effect of an action. Call before the first event, once for each action that
  // HasEffect. The sandbox may be gone when `act` returns.
  using Act = std::function<void(Sandbox& sandbox)>;
  void Does(Action action, Act act);
  // Registers a watcher. The machine calls the watchers in the order of registration, after the
  // store's write and before the action, also if the state is unchanged. A watcher neither applies
  // events nor answers clients.
  using Watcher = std::function<void(Sandbox& sandbox, State before)>;
  void Watch(Watcher watcher) { watchers_.push_back(std::move(watcher)); }

  // Applies `event` by the table. Writes the new state to the store before anything follows from
  // it; if the write fails, nothing has changed. kFailedPrecondition: the table refuses the event.
  // The sandbox may be gone afterwards.
  Status Apply(Sandbox& sandbox, Event event, const Cause& cause);
  // Applies an event that has already happened, even if the store cannot record it.
  void ApplyAnyway(Sandbox& sandbox, Event event, const Cause& cause);

  // Two halves of Apply for records that are written together with others. Enter changes the state
  // in memory alone, of a copy of the sandbox, and returns the cause that it replaced, if any.
  // Follow does the rest once the store has the record.
  std::optional<Cause> Enter(Sandbox& sandbox, State next, const Cause& cause) const;
  void Follow(Sandbox& sandbox, State before, Action action);

  // Gives the sandbox to its attempt, until TakeAttempt. The store has no row of an owned sandbox.
  // The transaction that writes its first row writes the attempt's key, too.
  void Own(const Sandbox& sandbox, std::shared_ptr<Attempt> attempt);
  // Returns null if the store has the sandbox's record.
  std::shared_ptr<Attempt> AttemptOf(const Sandbox& sandbox) const;
  std::shared_ptr<Attempt> TakeAttempt(const Sandbox& sandbox);
  bool IsRecorded(const Sandbox& sandbox) const { return !attempts_.contains(&sandbox); }
  // Call once the store has the record: commits the attempt, so that nothing is taken back, and
  // answers its request.
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
