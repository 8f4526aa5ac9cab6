#include "runtime/sandbox/states.h"

#include <gtest/gtest.h>

#include <sstream>

namespace atl::sandbox {
namespace {

// The table once more, as a person would say it: rows are states, columns events. A change of the
// real one has to be made here too, on purpose.
//   P R S T F: the next state;  ^ publish  * release  ~ await  > defer  . none  = keep  x forget  !
//   bug
constexpr const char* kExpected[kStates] = {
    // Built BuildFailed StartFailed ExitedZero ExitedError Vanished Delete Expire Released
    /* Pending    */ "R^ S* P! P> P> S* S~ S~ P!",
    /* Running    */ "R! R! F* T* F* T* S* S* R!",
    /* Stopping   */ "S* S* S. S. S. S* S. S. Sx",
    /* Terminated */ "T! T! T. T. T. T. S* S* T=",
    /* Failed     */ "F! F! F. F. F. F. S* S* F=",
};

char Letter(State state) {
  return "PRSTF"[static_cast<int>(state)];
}

char Sign(Action action) {
  switch (action) {
    case Action::kNone:
      return '.';
    case Action::kDefer:
      return '>';
    case Action::kAwait:
      return '~';
    case Action::kPublish:
      return '^';
    case Action::kRelease:
      return '*';
    case Action::kKeep:
      return '=';
    case Action::kForget:
      return 'x';
    case Action::kBug:
      return '!';
  }
  return '?';
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
