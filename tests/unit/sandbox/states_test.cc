#include "runtime/sandbox/record/states.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace atl::sandbox {
namespace {

// The transition table once more, written for readers: rows are states, columns are events. Whoever
// changes the real table must change this one, too, on purpose.
constexpr const char* kExpected[kStates] = {
    // Admitted MustWait Imported Begun SlotLost Built NotBuilt GivenUp StartFailed ExitedZero
    // ExitedError Vanished Unfinished Pause Frozen FreezeFailed Resume Thawed ThawFailed NotAsked
    // Delete Expire Released RolledBack Replaced
    /* Acquiring  */ "Q& w~ A! A! A! A! gx A! A! A! A! A! A! A# A! A! A# A! A! A! gx gx A! A# A!",
    /* Awaiting   */ "w! w! Q& w! w! w! w! F= w! w! w! w! f* w# w! w! w# w! w! w! gx gx w! w# w!",
    /* Queued     */ "Q! Q! Q! B. Q! Q! gx F= Q! Q! Q! Q! Q! Q# Q! Q! Q# Q! Q! Q! gx gx Q! Q# Q!",
    /* Building   */ "B! B! B! B! Q. R^ S* f* B! B> B> B! B! B# B! B! B# B! B! B! c. c. B! B# B!",
    /* Replacing  */ "Q& P! P! P! P! P! P! P! P! f* f* f* P! P# P! P! P# P! P! P! c. c. P! P# R$",
    /* Running    */ "R! R! R! R! R! R! R! R! f* e* f* e* R! p- R. R. R# R. R. R. S* S* R! P% R!",
    /* Pausing    */ "p! p! p! p! p! p! p! p! f* e* f* e* p! p. d@ r+ p# p. p. R. S* S* p! P% p!",
    /* Paused     */ "d! d! d! d! d! d! d! d! f* e* f* e* d! d# d. d. r+ d. d. d. S* S* d! P% d!",
    /* Resuming   */ "r! r! r! r! r! r! r! r! f* e* f* e* r! r# r. r. r. R@ d@ d. S* S* r! P% r!",
    /* Cancelled  */ "c! c! c! c! c. S* S* S* c! c. c. c! c! c# c! c! c# c! c! c! c. c. c! c# S*",
    /* Stopping   */ "S! S! S! S! S! S! S! S! S. S. S. S. S* S# S. S. S# S. S. S. S. S. gx S# S!",
    /* Gone       */ "g! g! g! g! g! g! g! g! g! g! g! g! g! g# g! g! g# g! g! g! g. g. g! g# g!",
    /* Ending     */ "e! e! e! e! e! e! e! e! e. e. e. e. e* e# e. e. e# e. e. e. S. S. T= e# e!",
    /* Terminated */ "T! T! T! T! T! T! T! T! T. T. T. T. e* T# T. T. T# T. T. T. gx gx T! T# T!",
    /* Failing    */ "f! f! f! f! f! f! f! f! f. f. f. f. f* f# f. f. f# f. f. f. S. S. F= f# f!",
    /* Failed     */ "F! F! F! F! F! F! F! F! F. F. F. F. f* F# F. F. F# F. F. F. gx gx F! F# F!",
};

char Letter(State state) {
  return "AwQBPRpdrcSgeTfF"[static_cast<int>(state)];
}

char Sign(Action action) {
  return ".>~&^-+@#*=x%$!"[static_cast<int>(action)];
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

constexpr std::string_view kStateTitles[kStates] = {
    "Acquiring", "Awaiting",   "Queued",   "Building",  "Replacing", "Running",
    "Pausing",   "Paused",     "Resuming", "Cancelled", "Stopping",  "Gone",
    "Ending",    "Terminated", "Failing",  "Failed"};
constexpr std::string_view kBegin = "<!-- states: begin -->\n";
constexpr std::string_view kEnd = "<!-- states: end -->\n";

// Returns "NotBuilt" for "not_built".
std::string Title(std::string_view name) {
  std::string title;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') title += begins ? static_cast<char>(c - 'a' + 'A') : c;
    begins = c == '_';
  }
  return title;
}

// Returns the transitions of one event, as a row of Markdown without its first cell.
std::string Row(Event event) {
  constexpr std::string_view kCodes = "AcAwQuBuRpRuPgPdRgCaStGoEgTeFgFa";
  std::string row = " |";
  for (int s = 0; s < kStates; ++s) {
    const Transition transition = Next(static_cast<State>(s), event);
    row += " `";
    row += kCodes.substr(static_cast<size_t>(transition.next) * 2, 2);
    row += Sign(transition.action);
    row += "` |";
  }
  return row + "\n";
}

// Adjacent events with equal rows share one row.
std::string MarkdownTable() {
  std::string table = "| |";
  for (const std::string_view title : kStateTitles) table += " " + std::string(title) + " |";
  table += "\n|---|";
  for (int s = 0; s < kStates; ++s) table += "---|";
  table += "\n";
  for (int e = 0; e < kEvents; ++e) {
    std::string names = Title(EventName(static_cast<Event>(e)));
    const std::string row = Row(static_cast<Event>(e));
    while (e + 1 < kEvents && Row(static_cast<Event>(e + 1)) == row) {
      names += ", " + Title(EventName(static_cast<Event>(++e)));
    }
    table += "| " + names + row;
  }
  return table;
}

// ATOLL_WRITE=1 in the environment writes the table into the README.
TEST(States, TheReadmeShowsTheTable) {
  std::stringstream readme;
  readme << std::ifstream(SANDBOX_README).rdbuf();
  const std::string text = readme.str();
  const size_t begin = text.find(kBegin);
  const size_t end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t table = begin + kBegin.size();
  if (std::getenv("ATOLL_WRITE") != nullptr) {
    std::ofstream(SANDBOX_README) << text.substr(0, table) << MarkdownTable() << text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(table, end - table), MarkdownTable());
}

TEST(States, NoWayBack) {
  // A sandbox that has ended never runs again. A sandbox that is being removed stays so until it is
  // gone.
  for (int e = 0; e < kEvents; ++e) {
    const auto event = static_cast<Event>(e);
    for (int s = 0; s < kStates; ++s) {
      const auto state = static_cast<State>(s);
      const State next = Next(state, event).next;
      EXPECT_TRUE(!IsLeaving(state) || IsLeaving(next));
      EXPECT_TRUE(!IsOver(state) || IsLeaving(next) || StateName(next) == StateName(state));
    }
  }
}

// Resources are held until they are released, and they are released only once.
TEST(States, NothingIsHeldForEverAndNothingReleasedTwice) {
  for (int s = 0; s < kStates; ++s) {
    for (int e = 0; e < kEvents; ++e) {
      const auto state = static_cast<State>(s);
      const auto event = static_cast<Event>(e);
      const Transition transition = Next(state, event);
      const bool releasing = transition.next == State::kStopping ||
                             transition.next == State::kEnding ||
                             transition.next == State::kFailing;
      const bool was =
          state == State::kStopping || state == State::kEnding || state == State::kFailing;
      // Only a restart asks for the release again.
      EXPECT_EQ(transition.action == Action::kRelease,
                releasing && (!was || event == Event::kUnfinished))
          << StateName(state) << " on " << EventName(event);
      // The spawner has nothing of a sandbox before its build. After that it may have something
      // until it reports the opposite.
      if (IsLive(state) || state == State::kBuilding || state == State::kReplacing || was) {
        EXPECT_TRUE(Holds(transition.next) || event == Event::kReleased);
      }
      EXPECT_EQ(transition.action == Action::kForget,
                transition.next == State::kGone && state != State::kGone);
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
    EXPECT_TRUE(IsLeaving(Next(static_cast<State>(s), Event::kDelete).next));
    EXPECT_TRUE(IsLeaving(Next(static_cast<State>(s), Event::kExpire).next));
  }
}

TEST(States, RecordsAreReadAsTheyWereWritten) {
  for (int s = 0; s < kStates; ++s) {
    const auto state = static_cast<State>(s);
    const auto parsed = ParseState(StateName(state), Holds(state) ? 7 : 0);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(StateName(*parsed), StateName(state));
    if (IsLive(state) || IsOver(state) || state == State::kAwaiting || state == State::kStopping) {
      EXPECT_EQ(*parsed, state);
    }
  }
  EXPECT_FALSE(ParseState("running", 0));
  EXPECT_FALSE(ParseState("", 0));
}

}  // namespace
}  // namespace atl::sandbox
