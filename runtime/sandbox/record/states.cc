#include "runtime/sandbox/record/states.h"

#include <array>
#include <string>

namespace atl::sandbox {
namespace {

// A cell has the next state, by its first letters, and the sign of the action:
//
//   . nothing            & launch      - freeze     * release what it holds
//   > defer until built  ~ wait        + thaw       = keep the record
//   # refuse             ^ publish     @ settle     x forget the record
//   ! a bug              % replace     $ begin
constexpr std::string_view kStateCodes = "AcAwQuBuRpRuPgPdRgCaStGoEgTeFgFa";
constexpr std::string_view kActionSigns = ".>~&^-+@#*=x%$!";
// Rows are events, columns states, both in the order of their enumerations.
constexpr std::string_view kTable[kEvents] = {
    //                Ac  Aw  Qu  Bu  Rp  Ru  Pg  Pd  Rg  Ca  St  Go  Eg  Te  Fg  Fa
    /* Admitted     */ "Qu& Aw! Qu! Bu! Qu& Ru! Pg! Pd! Rg! Ca! St! Go! Eg! Te! Fg! Fa!",
    /* MustWait     */ "Aw~ Aw! Qu! Bu! Rp! Ru! Pg! Pd! Rg! Ca! St! Go! Eg! Te! Fg! Fa!",
    /* Imported     */ "Ac! Qu& Qu! Bu! Rp! Ru! Pg! Pd! Rg! Ca! St! Go! Eg! Te! Fg! Fa!",
    /* Begun        */ "Ac! Aw! Bu. Bu! Rp! Ru! Pg! Pd! Rg! Ca! St! Go! Eg! Te! Fg! Fa!",
    /* SlotLost     */ "Ac! Aw! Qu! Qu. Rp! Ru! Pg! Pd! Rg! Ca. St! Go! Eg! Te! Fg! Fa!",
    /* Built        */ "Ac! Aw! Qu! Ru^ Rp! Ru! Pg! Pd! Rg! St* St! Go! Eg! Te! Fg! Fa!",
    /* NotBuilt     */ "Gox Aw! Gox St* Rp! Ru! Pg! Pd! Rg! St* St! Go! Eg! Te! Fg! Fa!",
    /* GivenUp      */ "Ac! Fa= Fa= Fg* Rp! Ru! Pg! Pd! Rg! St* St! Go! Eg! Te! Fg! Fa!",
    /* StartFailed  */ "Ac! Aw! Qu! Bu! Rp! Fg* Fg* Fg* Fg* Ca! St. Go! Eg. Te. Fg. Fa.",
    /* ExitedZero   */ "Ac! Aw! Qu! Bu> Fg* Eg* Eg* Eg* Eg* Ca. St. Go! Eg. Te. Fg. Fa.",
    /* ExitedError  */ "Ac! Aw! Qu! Bu> Fg* Fg* Fg* Fg* Fg* Ca. St. Go! Eg. Te. Fg. Fa.",
    /* Vanished     */ "Ac! Aw! Qu! Bu! Fg* Eg* Eg* Eg* Eg* Ca! St. Go! Eg. Te. Fg. Fa.",
    /* Unfinished   */ "Ac! Fg* Qu! Bu! Rp! Ru! Pg! Pd! Rg! Ca! St* Go! Eg* Eg* Fg* Fg*",
    /* Pause        */ "Ac# Aw# Qu# Bu# Rp# Pg- Pg. Pd# Rg# Ca# St# Go# Eg# Te# Fg# Fa#",
    /* Frozen       */ "Ac! Aw! Qu! Bu! Rp! Ru. Pd@ Pd. Rg. Ca! St. Go! Eg. Te. Fg. Fa.",
    /* FreezeFailed */ "Ac! Aw! Qu! Bu! Rp! Ru. Rg+ Pd. Rg. Ca! St. Go! Eg. Te. Fg. Fa.",
    /* Resume       */ "Ac# Aw# Qu# Bu# Rp# Ru# Pg# Rg+ Rg. Ca# St# Go# Eg# Te# Fg# Fa#",
    /* Thawed       */ "Ac! Aw! Qu! Bu! Rp! Ru. Pg. Pd. Ru@ Ca! St. Go! Eg. Te. Fg. Fa.",
    /* ThawFailed   */ "Ac! Aw! Qu! Bu! Rp! Ru. Pg. Pd. Pd@ Ca! St. Go! Eg. Te. Fg. Fa.",
    /* NotAsked     */ "Ac! Aw! Qu! Bu! Rp! Ru. Ru. Pd. Pd. Ca! St. Go! Eg. Te. Fg. Fa.",
    /* Delete       */ "Gox Gox Gox Ca. Ca. St* St* St* St* Ca. St. Go. St. Gox St. Gox",
    /* Expire       */ "Gox Gox Gox Ca. Ca. St* St* St* St* Ca. St. Go. St. Gox St. Gox",
    /* Released     */ "Ac! Aw! Qu! Bu! Rp! Ru! Pg! Pd! Rg! Ca! Gox Go! Te= Te! Fa= Fa!",
    /* RolledBack   */ "Ac# Aw# Qu# Bu# Rp# Rp% Rp% Rp% Rp% Ca# St# Go# Eg# Te# Fg# Fa#",
    /* Replaced     */ "Ac! Aw! Qu! Bu! Ru$ Ru! Pg! Pd! Rg! St* St! Go! Eg! Te! Fg! Fa!",
};

using Table = std::array<std::array<Transition, kStates>, kEvents>;

// An unreadable cell is a compile error.
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

consteval bool Occurs(Action action) {
  for (const auto& row : kTransitions) {
    for (const Transition& cell : row) {
      if (cell.action == action) return true;
    }
  }
  return false;
}
consteval bool AllOccur() {
  for (int action = 0; action < kActions; ++action) {
    if (!Occurs(static_cast<Action>(action))) return false;
  }
  return true;
}
static_assert(AllOccur(), "no cell of the table has this action");

constexpr std::string_view kStateNames[kStates] = {
    "Pending",    "Pending",    "Pending",  "Pending",  "Pending",  "Running",
    "Pausing",    "Paused",     "Resuming", "Stopping", "Stopping", "Stopping",
    "Terminated", "Terminated", "Failed",   "Failed"};
constexpr std::string_view kEventNames[kEvents] = {
    "admitted",      "must_wait", "imported",   "begun",        "slot_lost",
    "built",         "not_built", "given_up",   "start_failed", "exited_zero",
    "exited_error",  "vanished",  "unfinished", "pause",        "frozen",
    "freeze_failed", "resume",    "thawed",     "thaw_failed",  "not_asked",
    "delete",        "expire",    "released",   "rolled_back",  "replaced"};

}  // namespace

std::string_view StateName(State state) {
  return kStateNames[static_cast<int>(state)];
}

Result<State> ParseState(std::string_view name, uint32_t slot) {
  // The store holds a launch only as kAwaiting (or rolled back, which other fields tell), and a
  // removal only as kStopping.
  for (const State state : {State::kAwaiting, State::kRunning, State::kPausing, State::kPaused,
                            State::kResuming, State::kStopping}) {
    if (StateName(state) == name) return state;
  }
  if (name == StateName(State::kEnding)) return slot == 0 ? State::kTerminated : State::kEnding;
  if (name == StateName(State::kFailing)) return slot == 0 ? State::kFailed : State::kFailing;
  return Fail(Code::kInvalidArgument, "unknown sandbox state '" + std::string(name) + "'");
}

std::string_view EventName(Event event) {
  return kEventNames[static_cast<int>(event)];
}

Transition Next(State state, Event event) {
  return kTransitions[static_cast<size_t>(event)][static_cast<size_t>(state)];
}

}  // namespace atl::sandbox
