// The life of a sandbox as one table: in which state, on which event, what comes next and what is
// to be done. The table itself is in states.cc; Lifecycle runs it, tests go through every cell, and
// the README shows it.
//
// Stopping is invisible from outside: whoever asked for the deletion has had the answer, and a
// sandbox that is being removed is not found. What it still holds is released behind that.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::sandbox {

enum class State : uint8_t {
  kPending,
  kRunning,
  kPausing,   // to be frozen, and not known to be yet
  kPaused,    // every process is frozen
  kResuming,  // to be thawed, and not known to be yet
  kStopping,
  kTerminated,
  kFailed,
};
inline constexpr int kStates = 8;
// As the API shows and the store keeps it: "Pending", "Running", …
std::string_view StateName(State state);
Result<State> ParseState(std::string_view name);

// Its process 1 is there, as far as we know.
constexpr bool IsLive(State state) {
  return state >= State::kRunning && state <= State::kResuming;
}

enum class Event : uint8_t {
  kBuilt,         // the spawner has it, execd is up
  kBuildFailed,   // it could not be built, or its turn came after its deletion
  kGivenUp,       // the same of one that a client has been told of
  kStartFailed,   // execd reports that the entrypoint cannot be run
  kExitedZero,    // process 1 ended with code 0
  kExitedError,   // process 1 ended otherwise
  kVanished,      // a restart found no trace of it
  kPause,         // a client asked
  kFrozen,        // every process stands still
  kFreezeFailed,  // some process went on; all of them are to
  kResume,        // a client asked
  kThawed,
  kThawFailed,
  kNotAsked,  // for a freeze or thaw no spawner was there, and whoever asked has been told so
  kDelete,    // a client asked
  kExpire,    // its time is over
  kReleased,  // nothing of it is left on the host
};
inline constexpr int kEvents = 17;
std::string_view EventName(Event event);

enum class Action : uint8_t {
  kNone,
  kDefer,    // an event that overtook the answer to the build: again after kBuilt
  kAwait,    // the build is under way: its answer brings the release
  kPublish,  // write the record, answer the create
  kFreeze,   // kFrozen or kFreezeFailed follows
  kThaw,     // kThawed or kThawFailed follows
  kSettle,   // answer who asked for a pause or its end
  kRefuse,   // tell the client that the state does not allow it
  kRelease,  // destroy what it holds; kReleased follows
  kKeep,     // nothing is held any more, the record stays until deletion or expiry
  kForget,   // remove the record
  kBug,      // cannot happen
};
inline constexpr int kActions = 12;

struct Transition {
  State next;
  Action action;
};
Transition Next(State state, Event event);

}  // namespace atl::sandbox
