// The life of a sandbox as one table: for each state and event, the next state and the action. The
// table is in states.cc. Machine runs it, tests check every cell, and the README shows it.
//
// The API and the store use fewer words than there are states. "Pending" covers every state of a
// launch. "Terminated" and "Failed" also cover the time while an ended sandbox's resources are
// being released. No client sees "Stopping": the deletion has been acknowledged, and a request for
// a sandbox that is being removed gets "not found".
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::sandbox {

enum class State : uint8_t {
  // "Pending". The store has such a record only if a client has been told of the sandbox.
  kAcquiring,  // its volumes are being acquired; no client knows its id yet
  kAwaiting,   // its image is being imported
  kQueued,     // it waits for its turn and a slot
  kBuilding,   // the spawner may have it; its answer is pending
  kReplacing,  // rolled back; its entrypoint starts once the old processes are gone
  // Process 1 exists, as far as the daemon knows.
  kRunning,
  kPausing,   // the freeze was requested and is not confirmed
  kPaused,    // every process is frozen
  kResuming,  // the thaw was requested and is not confirmed
  // "Stopping".
  kCancelled,  // deleted during its build; the answer to the build is pending
  kStopping,   // deleted; its resources are being released
  kGone,       // deleted, and it holds nothing; its record is removed at once
  // "Terminated".
  kEnding,      // ended; its resources are being released
  kTerminated,  // ended, and it holds nothing
  // "Failed".
  kFailing,  // ended; its resources are being released
  kFailed,
};
inline constexpr int kStates = 16;
// Returns the name that the API shows and the store keeps: "Pending", "Running", … States of one
// name are adjacent.
std::string_view StateName(State state);
// Parses the name in a record. `slot`: the slot in the record, or 0; it tells states of one name
// apart.
Result<State> ParseState(std::string_view name, uint32_t slot);

// Returns true if process 1 exists, as far as the daemon knows.
constexpr bool IsLive(State state) {
  return state >= State::kRunning && state <= State::kResuming;
}
// Returns true for a deleted or expired sandbox.
constexpr bool IsLeaving(State state) {
  return state >= State::kCancelled && state <= State::kGone;
}
// Returns true for a sandbox that has ended for any reason and can still be read.
constexpr bool IsOver(State state) {
  return state >= State::kEnding;
}
// Returns true while the sandbox holds its reservation and the layers of its image.
constexpr bool Holds(State state) {
  return state != State::kAwaiting && state != State::kGone && state != State::kTerminated &&
         state != State::kFailed;
}

// Returns true while the sandbox counts against the quota of its tenant. One that waits for its
// image counts, because a client has been promised it.
constexpr bool CountsForQuota(State state) {
  return Holds(state) || state == State::kAwaiting;
}

// Returns true while the sandbox counts for its pool and for the snapshot that it was restored
// from. A sandbox that is leaving does not count, so a client that has deleted the last sandbox of
// a pool may then delete the pool.
constexpr bool CountsForOrigin(State state) {
  return Holds(state) && !IsLeaving(state);
}

enum class Event : uint8_t {
  kAdmitted,      // all resources that the request needs are acquired
  kMustWait,      // the same, but its image is still being imported
  kImported,      // the image is in the store
  kBegun,         // its turn has come, and it has a slot
  kSlotLost,      // the build lost its slot and left nothing; another slot is coming
  kBuilt,         // the spawner has it, and execd is up
  kNotBuilt,      // a resource is missing, or the build failed
  kGivenUp,       // like kNotBuilt, for a sandbox that a client has been told of
  kStartFailed,   // execd reports that the entrypoint cannot be run
  kExitedZero,    // process 1 ended with code 0
  kExitedError,   // process 1 ended otherwise
  kVanished,      // a restarted daemon found no trace of it
  kUnfinished,    // a restarted daemon found it held, or not known to be released
  kPause,         // a client asked
  kFrozen,        // every process is frozen
  kFreezeFailed,  // some process was not frozen; all of them have to run again
  kResume,        // a client asked
  kThawed,
  kThawFailed,
  kNotAsked,    // no spawner was there for a freeze or thaw; the client has got the error
  kDelete,      // a client asked
  kExpire,      // its deadline has passed
  kReleased,    // nothing of it is left on the host
  kRolledBack,  // recorded: it has the files of a snapshot, and its old processes must go
  kReplaced,    // its old processes are gone
};
inline constexpr int kEvents = 25;
std::string_view EventName(Event event);

enum class Action : uint8_t {
  kNone,
  kDefer,    // the event overtook the answer to the build: apply it again after kBuilt
  kWait,     // write the record, answer the create, wait for the image
  kLaunch,   // wait for a turn
  kPublish,  // write the record, answer the create
  kFreeze,   // kFrozen or kFreezeFailed follows
  kThaw,     // kThawed or kThawFailed follows
  kSettle,   // answer the clients that wait for a pause or a resume
  kRefuse,   // tell the client that the state does not allow it
  kRelease,  // destroy what it holds; kReleased follows
  kKeep,     // keep the record until deletion or expiry; the sandbox holds nothing
  kForget,   // remove the record
  kReplace,  // destroy the old processes; kReplaced follows
  kBegin,    // start its entrypoint
  kBug,      // cannot happen
};
inline constexpr int kActions = 15;
// Returns true if the machine runs something after the new state. Returns false for actions that
// change the state alone, or nothing.
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
