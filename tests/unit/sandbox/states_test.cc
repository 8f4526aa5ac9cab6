#include "runtime/sandbox/states.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace atl::sandbox {
namespace {

// The table once more, as a person would say it, turned round: rows are states, columns events. A
// change of the real one has to be made here too, on purpose.
constexpr const char* kExpected[kStates] = {
    // Built BuildFailed GivenUp StartFailed ExitedZero ExitedError Vanished Pause Frozen
    // FreezeFailed
    // Resume Thawed ThawFailed NotAsked Delete Expire Released
    /* Pending    */ "R^ S* F* P! P> P> S* P# P! P! P# P! P! P! S~ S~ P!",
    /* Running    */ "R! R! R! F* T* F* T* p- R. R. R# R. R. R. S* S* R!",
    /* Pausing    */ "p! p! p! F* T* F* T* p. d@ r+ p# p. p. R. S* S* p!",
    /* Paused     */ "d! d! d! F* T* F* T* d# d. d. r+ d. d. d. S* S* d!",
    /* Resuming   */ "r! r! r! F* T* F* T* r# r. r. r. R@ d@ d. S* S* r!",
    /* Stopping   */ "S* S* S* S. S. S. S* S# S. S. S# S. S. S. S. S. Sx",
    /* Terminated */ "T! T! T! T. T. T. T. T# T. T. T# T. T. T. S* S* T=",
    /* Failed     */ "F! F! F! F. F. F. F. F# F. F. F# F. F. F. S* S* F=",
};

char Letter(State state) {
  return "PRpdrSTF"[static_cast<int>(state)];
}

char Sign(Action action) {
  return ".>~^-+@#*=x!"[static_cast<int>(action)];
}

TEST(States, EveryCell) {
  for (int s = 0; s < kStates; ++s) {
    std::istringstream row(kExpected[s]);
    for (int e = 0; e < kEvents; ++e) {
      std::string cell;
      row >> cell;
      const Transition transition = Next(static_cast<State>(s), static_cast<Event>(e));
      const std::string got = {Letter(transition.next), Sign(transition.action)};
      EXPECT_EQ(got, cell) << StateName(static_cast<State>(s)) << " on "
                           << EventName(static_cast<Event>(e));
    }
  }
}

TEST(States, TheReadmeShowsTheTable) {
  std::ifstream file(SANDBOX_README);
  std::stringstream readme;
  readme << file.rdbuf();
  constexpr std::string_view kCodes = "PeRuPgPdRgStTeFa";
  for (int e = 0; e < kEvents; ++e) {
    std::string row;
    for (int s = 0; s < kStates; ++s) {
      const Transition transition = Next(static_cast<State>(s), static_cast<Event>(e));
      row += " | `";
      row += kCodes.substr(static_cast<size_t>(transition.next) * 2, 2);
      row += Sign(transition.action);
      row += "`";
    }
    EXPECT_NE(readme.str().find(row + " |\n"), std::string::npos)
        << EventName(static_cast<Event>(e)) << row;
  }
}

TEST(States, NoWayBack) {
  // Once over, a sandbox never runs again, and once being removed it only goes.
  for (int e = 0; e < kEvents; ++e) {
    const auto event = static_cast<Event>(e);
    EXPECT_EQ(Next(State::kStopping, event).next, State::kStopping);
    for (State over : {State::kTerminated, State::kFailed}) {
      const State next = Next(over, event).next;
      EXPECT_TRUE(next == over || next == State::kStopping);
    }
  }
}

TEST(States, OnlyRunningCanBePausedAndOnlyPausedResumed) {
  for (int s = 0; s < kStates; ++s) {
    const auto state = static_cast<State>(s);
    EXPECT_EQ(Next(state, Event::kPause).action == Action::kFreeze, state == State::kRunning);
    EXPECT_EQ(Next(state, Event::kResume).action == Action::kThaw, state == State::kPaused);
  }
}

TEST(States, EveryStateCanBeDeletedAndExpires) {
  for (int s = 0; s < kStates; ++s) {
    EXPECT_EQ(Next(static_cast<State>(s), Event::kDelete).next, State::kStopping);
    EXPECT_EQ(Next(static_cast<State>(s), Event::kExpire).next, State::kStopping);
  }
}

TEST(States, NamesRoundTrip) {
  for (int s = 0; s < kStates; ++s) {
    const auto state = static_cast<State>(s);
    const auto parsed = ParseState(StateName(state));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, state);
  }
  EXPECT_FALSE(ParseState("running"));
  EXPECT_FALSE(ParseState(""));
}

}  // namespace
}  // namespace atl::sandbox
