// The life of a sandbox as one table: in which state, on which event, what comes next and what is
// to be done. Lifecycle runs it, tests go through every cell.
//
//             Built      BuildFailed  StartFailed  ExitedZero   ExitedError  Vanished    Delete
//             Expire      Released
// Pending     Running ↑  Stopping ×   !            (later)      (later)      Stopping ×  Stopping
// Stopping    ! Running     !          !            Failed ×     Terminated × Failed × Terminated×
// Stopping ×  Stopping ×  ! Stopping    × again    × again      –            –            – × again
// –           –           forgotten Terminated  !          !            –            –            –
// –           Stopping ×  Stopping ×  kept Failed      !          !            –            – – –
// Stopping ×  Stopping ×  kept
//
//   ↑ publish   × release what it holds   – nothing   (later) kept until Built   ! a bug, logged
//
// Stopping is invisible from outside: whoever asked for the deletion has had the answer, and a
// sandbox that is being removed is not found. What it still holds is released behind that.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::sandbox {

enum class State : uint8_t { kPending, kRunning, kStopping, kTerminated, kFailed };
inline constexpr int kStates = 5;
// As the API shows and the store keeps it: "Pending", "Running", …
std::string_view StateName(State state);
Result<State> ParseState(std::string_view name);

enum class Event : uint8_t {
  kBuilt,        // the spawner has it, execd is up
  kBuildFailed,  // it could not be built, or its turn came after its deletion
  kStartFailed,  // execd reports that the entrypoint cannot be run
  kExitedZero,   // process 1 ended with code 0
  kExitedError,  // process 1 ended otherwise
  kVanished,     // a restart found no trace of it
  kDelete,       // a client asked
  kExpire,       // its time is over
  kReleased,     // nothing of it is left on the host
};
inline constexpr int kEvents = 9;
std::string_view EventName(Event event);

enum class Action : uint8_t {
  kNone,
  kDefer,    // an event that overtook the answer to the build: again after kBuilt
  kAwait,    // the build is under way: its answer brings the release
  kPublish,  // write the record, answer the create
  kRelease,  // destroy what it holds; kReleased follows
  kKeep,     // nothing is held any more, the record stays until deletion or expiry
  kForget,   // remove the record
  kBug,      // cannot happen
};

struct Transition {
  State next;
  Action action;
};
Transition Next(State state, Event event);

}  // namespace atl::sandbox
