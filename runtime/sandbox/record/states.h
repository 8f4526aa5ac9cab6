// The life of a sandbox as one table: in which state, on which event, what comes next and what is
// to be done. The table itself is in states.cc; Machine runs it, tests go through every cell, and
// the README shows it.
//
// The API shows and the store keeps fewer words than there are states: "Pending" is every way of a
// launch, and what has ended is "Terminated" or "Failed" also while what it held is being released.
// "Stopping" is invisible from outside: whoever asked for the deletion has had the answer, and a
// sandbox that is being removed is not found.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::sandbox {

enum class State : uint8_t {
  // "Pending". In the store only where a client has been told of it.
  kAcquiring,  // its volumes are being had; nobody knows its id yet
  kAwaiting,   // its image is being imported
  kQueued,     // its turn, and a slot, are to come
  kBuilding,   // the spawner may have it; its answer is to come
  kReplacing,  // rolled back, and its entrypoint starts when what it was has gone
  // Its process 1 is there, as far as we know.
  kRunning,
  kPausing,   // to be frozen, and not known to be yet
  kPaused,    // every process is frozen
  kResuming,  // to be thawed, and not known to be yet
  // "Stopping".
  kCancelled,  // deleted while it was built: the answer to that is to come
  kStopping,   // deleted; what it holds is being released
  kGone,       // deleted, and it holds nothing; its record goes in the same breath
  // "Terminated".
  kEnding,      // over; what it holds is being released
  kTerminated,  // and it holds nothing
  // "Failed".
  kFailing,  // likewise
  kFailed,
};
inline constexpr int kStates = 16;
// As the API shows and the store keeps it: "Pending", "Running", … States of one name follow each
// other.
std::string_view StateName(State state);
// Of a record. `slot`: that it says it has, or 0.
Result<State> ParseState(std::string_view name, uint32_t slot);

// Its process 1 is there, as far as we know.
constexpr bool IsLive(State state) {
  return state >= State::kRunning && state <= State::kResuming;
}
// Deleted or expired.
constexpr bool IsLeaving(State state) {
  return state >= State::kCancelled && state <= State::kGone;
}
// It has ended, for whatever reason, and can still be read.
constexpr bool IsOver(State state) {
  return state >= State::kEnding;
}
// What it was promised, and the layers of its image, are its own.
constexpr bool Holds(State state) {
  return state != State::kAwaiting && state != State::kGone && state != State::kTerminated &&
         state != State::kFailed;
}

// It counts for its pool, and for the snapshot it is restored from: who deletes the last sandbox of
// one may then delete that.
constexpr bool CountsForOrigin(State state) {
  return Holds(state) && !IsLeaving(state);
}

enum class Event : uint8_t {
  kAdmitted,      // all that was asked for is had
  kMustWait,      // likewise, but for its image, which is being imported
  kImported,      // the image is there
  kBegun,         // its turn has come, with a slot
  kSlotLost,      // nothing came of that, and nothing is left: another slot is to come
  kBuilt,         // the spawner has it, execd is up
  kNotBuilt,      // it could not be had or built
  kGivenUp,       // the same of one that a client has been told of
  kStartFailed,   // execd reports that the entrypoint cannot be run
  kExitedZero,    // process 1 ended with code 0
  kExitedError,   // process 1 ended otherwise
  kVanished,      // a restart found no trace of it
  kUnfinished,    // a restart found it held, or not known to be released
  kPause,         // a client asked
  kFrozen,        // every process stands still
  kFreezeFailed,  // some process went on; all of them are to
  kResume,        // a client asked
  kThawed,
  kThawFailed,
  kNotAsked,    // for a freeze or thaw no spawner was there, and whoever asked has been told so
  kDelete,      // a client asked
  kExpire,      // its time is over
  kReleased,    // nothing of it is left on the host
  kRolledBack,  // recorded: it has the files of a snapshot, and what it was is to go
  kReplaced,    // that has gone
};
inline constexpr int kEvents = 25;
std::string_view EventName(Event event);

enum class Action : uint8_t {
  kNone,
  kDefer,    // an event that overtook the answer to the build: again after kBuilt
  kWait,     // write the record, answer the create, wait for the image
  kLaunch,   // wait for a turn
  kPublish,  // write the record, answer the create
  kFreeze,   // kFrozen or kFreezeFailed follows
  kThaw,     // kThawed or kThawFailed follows
  kSettle,   // answer who asked for a pause or its end
  kRefuse,   // tell the client that the state does not allow it
  kRelease,  // destroy what it holds; kReleased follows
  kKeep,     // nothing is held any more, the record stays until deletion or expiry
  kForget,   // remove the record
  kReplace,  // destroy what it was; kReplaced follows
  kBegin,    // let its entrypoint start
  kBug,      // cannot happen
};
inline constexpr int kActions = 15;
// Whether something is done behind the new state: not for what changes the state alone, or nothing.
constexpr bool HasEffect(Action action) {
  return action != Action::kNone && action != Action::kDefer && action != Action::kRefuse &&
         action != Action::kBug;
}

struct Transition {
  State next;
  Action action;
};
Transition Next(State state, Event event);

}  // namespace atl::sandbox
