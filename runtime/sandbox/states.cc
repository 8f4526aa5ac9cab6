#include "runtime/sandbox/states.h"

#include <string>

namespace atl::sandbox {
namespace {

using enum State;
using enum Action;

constexpr Transition kTable[kStates][kEvents] = {
    // Built, BuildFailed, StartFailed, ExitedZero, ExitedError, Vanished, Delete, Expire, Released
    /* Pending */
    {{kRunning, kPublish},
     {kStopping, kRelease},
     {kPending, kBug},
     {kPending, kDefer},
     {kPending, kDefer},
     {kStopping, kRelease},
     {kStopping, kAwait},
     {kStopping, kAwait},
     {kPending, kBug}},
    /* Running */
    {{kRunning, kBug},
     {kRunning, kBug},
     {kFailed, kRelease},
     {kTerminated, kRelease},
     {kFailed, kRelease},
     {kTerminated, kRelease},
     {kStopping, kRelease},
     {kStopping, kRelease},
     {kRunning, kBug}},
    /* Stopping */
    {{kStopping, kRelease},
     {kStopping, kRelease},
     {kStopping, kNone},
     {kStopping, kNone},
     {kStopping, kNone},
     {kStopping, kRelease},
     {kStopping, kNone},
     {kStopping, kNone},
     {kStopping, kForget}},
    /* Terminated */
    {{kTerminated, kBug},
     {kTerminated, kBug},
     {kTerminated, kNone},
     {kTerminated, kNone},
     {kTerminated, kNone},
     {kTerminated, kNone},
     {kStopping, kRelease},
     {kStopping, kRelease},
     {kTerminated, kKeep}},
    /* Failed */
    {{kFailed, kBug},
     {kFailed, kBug},
     {kFailed, kNone},
     {kFailed, kNone},
     {kFailed, kNone},
     {kFailed, kNone},
     {kStopping, kRelease},
     {kStopping, kRelease},
     {kFailed, kKeep}},
};

constexpr std::string_view kStateNames[kStates] = {"Pending", "Running", "Stopping", "Terminated",
                                                   "Failed"};
constexpr std::string_view kEventNames[kEvents] = {"built",       "build_failed", "start_failed",
                                                   "exited_zero", "exited_error", "vanished",
                                                   "delete",      "expire",       "released"};

}  // namespace

std::string_view StateName(State state) {
  return kStateNames[static_cast<int>(state)];
}

Result<State> ParseState(std::string_view name) {
  for (int i = 0; i < kStates; ++i) {
    if (kStateNames[i] == name) return static_cast<State>(i);
  }
  return Fail(Code::kInvalidArgument, "unknown sandbox state '" + std::string(name) + "'");
}

std::string_view EventName(Event event) {
  return kEventNames[static_cast<int>(event)];
}

Transition Next(State state, Event event) {
  return kTable[static_cast<int>(state)][static_cast<int>(event)];
}

}  // namespace atl::sandbox
