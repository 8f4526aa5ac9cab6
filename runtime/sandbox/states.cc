#include "runtime/sandbox/states.h"

#include <array>
#include <string>

namespace atl::sandbox {
namespace {

// A cell is the next state, by its first letters, and the sign of what is to be done:
//
//   . nothing            ^ publish     - freeze     * release what it holds
//   > later, when built  ~ await       + thaw       = keep the record
//   # refuse             ! a bug       @ settle     x forget the record
constexpr std::string_view kStateCodes = "PeRuPgPdRgStTeFa";
constexpr std::string_view kActionSigns = ".>~^-+@#*=x!";
// Rows are events, columns states, both in the order of their enumerations.
constexpr std::string_view kTable[kEvents] = {
    //               Pending Running Pausing Paused Resuming Stopping Terminated Failed
    /* Built        */ "Ru^     Ru!     Pg!     Pd!    Rg!      St*      Te!        Fa!",
    /* BuildFailed  */ "St*     Ru!     Pg!     Pd!    Rg!      St*      Te!        Fa!",
    /* GivenUp      */ "Fa*     Ru!     Pg!     Pd!    Rg!      St*      Te!        Fa!",
    /* StartFailed  */ "Pe!     Fa*     Fa*     Fa*    Fa*      St.      Te.        Fa.",
    /* ExitedZero   */ "Pe>     Te*     Te*     Te*    Te*      St.      Te.        Fa.",
    /* ExitedError  */ "Pe>     Fa*     Fa*     Fa*    Fa*      St.      Te.        Fa.",
    /* Vanished     */ "St*     Te*     Te*     Te*    Te*      St*      Te.        Fa.",
    /* Pause        */ "Pe#     Pg-     Pg.     Pd#    Rg#      St#      Te#        Fa#",
    /* Frozen       */ "Pe!     Ru.     Pd@     Pd.    Rg.      St.      Te.        Fa.",
    /* FreezeFailed */ "Pe!     Ru.     Rg+     Pd.    Rg.      St.      Te.        Fa.",
    /* Resume       */ "Pe#     Ru#     Pg#     Rg+    Rg.      St#      Te#        Fa#",
    /* Thawed       */ "Pe!     Ru.     Pg.     Pd.    Ru@      St.      Te.        Fa.",
    /* ThawFailed   */ "Pe!     Ru.     Pg.     Pd.    Pd@      St.      Te.        Fa.",
    /* NotAsked     */ "Pe!     Ru.     Ru.     Pd.    Pd.      St.      Te.        Fa.",
    /* Delete       */ "St~     St*     St*     St*    St*      St.      St*        St*",
    /* Expire       */ "St~     St*     St*     St*    St*      St.      St*        St*",
    /* Released     */ "Pe!     Ru!     Pg!     Pd!    Rg!      Stx      Te=        Fa=",
};

using Table = std::array<std::array<Transition, kStates>, kEvents>;

// A cell that cannot be read does not compile.
consteval Table ReadTable() {
  Table table{};
  for (int event = 0; event < kEvents; ++event) {
    std::string_view row = kTable[event];
    for (int state = 0; state < kStates; ++state) {
      row.remove_prefix(row.find_first_not_of(' '));
      size_t next = 0;
      while (kStateCodes.substr(next * 2, 2) != row.substr(0, 2)) ++next;
      const size_t action = kActionSigns.find(row.at(2));
      if (action == std::string_view::npos) throw "unknown sign";
      table[static_cast<size_t>(event)][static_cast<size_t>(state)] = {static_cast<State>(next),
                                                                       static_cast<Action>(action)};
      row.remove_prefix(3);
    }
    if (!row.empty()) throw "too many cells";
  }
  return table;
}
constexpr Table kTransitions = ReadTable();

constexpr std::string_view kStateNames[kStates] = {"Pending",  "Running",  "Pausing",    "Paused",
                                                   "Resuming", "Stopping", "Terminated", "Failed"};
constexpr std::string_view kEventNames[kEvents] = {
    "built",       "build_failed", "given_up", "start_failed",  "exited_zero", "exited_error",
    "vanished",    "pause",        "frozen",   "freeze_failed", "resume",      "thawed",
    "thaw_failed", "not_asked",    "delete",   "expire",        "released"};

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
  return kTransitions[static_cast<size_t>(event)][static_cast<size_t>(state)];
}

}  // namespace atl::sandbox
