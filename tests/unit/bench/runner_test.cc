#include "bench/runner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace atl::bench {
namespace {

using Json = nlohmann::json;
using Lines = std::vector<std::string>;

Phase Counting(const std::string& name, Lines* order, const std::string& turns, int samples) {
  return {.series = {{name, "", "ms", {}}},
          .samples = samples,
          .turns = turns,
          .run = [=](Take& take) -> Status {
            order->push_back(name);
            take.Add(name, 1);
            return {};
          }};
}

Phase Failing(const std::string& name, int samples) {
  return {.series = {{name, "", "ms", {}}}, .samples = samples, .run = [](Take&) -> Status {
            return Fail(Code::kUnavailable, "no answer");
          }};
}

Phase Preparing(Lines* order, const Status& status = {}) {
  return {.run = [=](Take&) -> Status {
    order->push_back("prepared");
    return status;
  }};
}

// Returns the emitted lines without the declarations: "sample a/x ours".
Lines RunAll(const std::vector<Side>& sides, const Choice& choice = {}) {
  Lines said;
  RunPhases("a", sides, choice, [&](const std::string& line) {
    const Json json = Json::parse(line);
    for (const auto& [what, told] : json.items()) {
      if (what == "declare") continue;
      said.push_back(what + " " + told[0].get<std::string>() + " " + told[1].get<std::string>());
    }
  });
  return said;
}

Lines Ours(const Phases& phases, const Choice& choice = {}) {
  return RunAll({{kOurs, phases}}, choice);
}

TEST(Runner, ComparedPhasesTakeTurns) {
  Lines order;
  Ours({Counting("x", &order, "t", 2), Counting("y", &order, "t", 3), Counting("z", &order, "", 2),
        Counting("w", &order, "", 1)});
  EXPECT_EQ(order, (Lines{"x", "y", "x", "y", "y", "z", "z", "w"}));
}

TEST(Runner, SidesTakeTurnsWithinASample) {
  Lines order;
  const Lines said =
      RunAll({{kOurs, {Counting("x", &order, "", 2)}}, {kAgainst, {Counting("x", &order, "", 2)}}});
  EXPECT_EQ(said, (Lines{"sample a/x ours", "sample a/x against", "sample a/x against",
                         "sample a/x ours"}));
}

TEST(Runner, WhatIsOfTheHostRunsOnce) {
  Lines order;
  Phase host = Counting("x", &order, "", 1);
  host.host = true;
  EXPECT_EQ(RunAll({{kOurs, {host}}, {kAgainst, {host}}}), Lines{"sample a/x ours"});
}

TEST(Runner, WarmUpIsNotCounted) {
  Lines order;
  Phase phase = Counting("x", &order, "", 1);
  phase.warm_up = 2;
  EXPECT_EQ(Ours({phase}), Lines{"sample a/x ours"});
  EXPECT_EQ(order, (Lines{"x", "x", "x"}));
}

TEST(Runner, AFailureInTheWarmUpIsOne) {
  Phase phase = Failing("x", 0);
  phase.warm_up = 1;
  EXPECT_EQ(Ours({phase}), Lines{"failure a/x ours"});
}

TEST(Runner, FailuresAreSaidAndGivenUpAfterSomeInARow) {
  EXPECT_EQ(Ours({Failing("x", 10)}), Lines(kMaxFailures, "failure a/x ours"));
  int turn = 0;
  const Phase sometimes{
      .series = {{"x", "", "ms", {}}}, .samples = 6, .run = [&](Take& take) -> Status {
        if (turn++ % 2 == 0) return Fail(Code::kInternal, "odd");
        take.Add("x", 1);
        return {};
      }};
  EXPECT_EQ(Ours({sometimes}).size(), 6u);
}

TEST(Runner, AFailedPreparationFailsWhatIsBehindIt) {
  Lines order;
  const Phases broken = {Counting("x", &order, "", 1),
                         Preparing(&order, Fail(Code::kUnavailable, "no daemon")),
                         Counting("y", &order, "", 5)};
  EXPECT_EQ(Ours(broken), (Lines{"sample a/x ours", "failure a/y ours"}));
  // The other set of programs must not fail, too.
  order.clear();
  const Phases whole = {Counting("x", &order, "", 1), Preparing(&order),
                        Counting("y", &order, "", 1)};
  EXPECT_EQ(
      RunAll({{kOurs, whole}, {kAgainst, broken}}),
      (Lines{"sample a/x ours", "sample a/x against", "sample a/y ours", "failure a/y against"}));
}

TEST(Runner, PreparesForChosenPhasesOnly) {
  Lines order;
  const Phases phases = {Preparing(&order), Counting("x", &order, "", 3), Preparing(&order),
                         Counting("yes", &order, "", 3)};
  EXPECT_EQ(Ours(phases, {.only = "x", .samples = 1}), Lines{"sample a/x ours"});
  EXPECT_EQ(order, (Lines{"prepared", "x"}));
  order.clear();
  EXPECT_EQ(Ours(phases, {.only = "y", .samples = 2}).size(), 2u);
  EXPECT_EQ(order, (Lines{"prepared", "prepared", "yes", "yes"}));
}

TEST(Runner, ASeriesThatIsNotInTheTableIsAFailure) {
  const Phase phase{.series = {{"x", "", "ms", {}}}, .run = [](Take& take) -> Status {
                      take.Add("z", 1);
                      return {};
                    }};
  EXPECT_EQ(Ours({phase}), Lines{"failure a/x ours"});
}

TEST(Runner, DeclaresChosenSeriesWithTheirBounds) {
  Lines lines;
  const Phase phase{
      .series = {{"x", "from → to", "ms", {{.at_most = 3, .over = "a/y", .must = true}}},
                 {"y", "", "1/s", {}}},
      .samples = 0};
  RunPhases("a", {{kOurs, {phase}}}, {.only = "x"},
            [&](const std::string& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(Json::parse(lines[0]),
            Json::parse(R"({"declare":{"id":"a/x","what":"from → to","unit":"ms","host":false,
              "bounds":[{"at_most":3.0,"over":"a/y","less":"","quantile":0.5,"must":true}]}})"));
}

}  // namespace
}  // namespace atl::bench
