#include "bench/runner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/clock.h"

namespace atl::bench {
namespace {

using Json = nlohmann::json;

Json BoundJson(const Bound& bound) {
  Json json = {{"over", bound.over},
               {"less", bound.less},
               {"quantile", bound.quantile},
               {"must", bound.must}};
  if (!std::isnan(bound.at_most)) json["at_most"] = bound.at_most;
  if (!std::isnan(bound.at_least)) json["at_least"] = bound.at_least;
  return json;
}

class Run {
 public:
  Run(std::string group, const std::vector<Side>& sides, const Choice& choice,
      const std::function<void(const std::string&)>& emit)
      : group_(std::move(group)),
        sides_(sides),
        choice_(choice),
        emit_(emit),
        broken_(sides.size()),
        failures_(sides.size(), std::vector<int>(Table().size())) {}

  void All() {
    for (const Phase& phase : Table()) Declare(phase);
    for (size_t first = 0; first < Table().size();) {
      size_t last = first + 1;
      const std::string& turns = Table()[first].turns;
      while (!turns.empty() && last < Table().size() && Table()[last].turns == turns) ++last;
      Turns(first, last);
      first = last;
    }
  }

 private:
  class Samples final : public Take {
   public:
    Samples(Run& run, const Phase& phase, const Side& side, bool counted)
        : run_(run), phase_(phase), side_(side), counted_(counted) {}
    void Add(const std::string& series, double value) override { Say("sample", series, value); }
    void Absent(const std::string& series, const std::string& why) override {
      Say("absent", series, why);
    }

   private:
    void Say(const char* what, const std::string& series, Json value) {
      const auto is = [&](const Series& one) { return one.name == series; };
      if (std::none_of(phase_.series.begin(), phase_.series.end(), is)) {
        run_.Fail(phase_, side_, "a series that is not in the table: " + series);
      } else if (counted_ && run_.Chosen(series)) {
        run_.Emit(what, series, side_, std::move(value));
      }
    }
    Run& run_;
    const Phase& phase_;
    const Side& side_;
    const bool counted_;
  };

  const Phases& Table() const { return sides_.front().phases; }

  bool Chosen(const std::string& series) const { return series.starts_with(choice_.only); }
  bool Chosen(const Phase& phase) const {
    return std::any_of(phase.series.begin(), phase.series.end(),
                       [&](const Series& series) { return Chosen(series.name); });
  }
  // A preparing phase is needed if a later phase is.
  bool Needed(size_t at) const {
    if (!Table()[at].series.empty()) return Chosen(Table()[at]);
    return std::any_of(Table().begin() + static_cast<std::ptrdiff_t>(at), Table().end(),
                       [&](const Phase& phase) { return Chosen(phase); });
  }

  void Emit(const char* what, const std::string& series, const Side& side, Json value) {
    emit_(Json{{what, {group_ + "/" + series, side.name, std::move(value)}}}.dump());
  }

  void Declare(const Phase& phase) {
    for (const Series& series : phase.series) {
      if (!Chosen(series.name)) continue;
      Json bounds = Json::array();
      for (const Bound& bound : series.bounds) bounds.push_back(BoundJson(bound));
      emit_(Json{{"declare",
                  {{"id", group_ + "/" + series.name},
                   {"what", series.what},
                   {"unit", series.unit},
                   {"host", phase.host},
                   {"bounds", std::move(bounds)}}}}
                .dump());
    }
  }

  void Turns(size_t first, size_t last) {
    const auto samples = [&](size_t at) {
      const Phase& phase = Table()[at];
      return phase.series.empty() || choice_.samples == 0 ? phase.samples : choice_.samples;
    };
    int from = 0, to = 0;
    for (size_t at = first; at < last; ++at) {
      from = std::min(from, -Table()[at].warm_up);
      to = std::max(to, samples(at));
    }
    for (int turn = from; turn < to; ++turn) {
      for (size_t at = first; at < last; ++at) {
        if (!Needed(at) || turn < -Table()[at].warm_up || turn >= samples(at)) continue;
        // The second side finds what the first has left behind, so the sides swap their order every
        // turn.
        for (size_t i = 0; i < sides_.size(); ++i) {
          Once(turn % 2 == 0 ? i : sides_.size() - 1 - i, at, turn >= 0);
        }
      }
    }
  }

  void Once(size_t side, size_t at, bool counted) {
    const Phase& phase = sides_[side].phases[at];
    int& failures = failures_[side][at];
    if ((phase.host && side > 0) || failures >= kMaxFailures) return;
    if (!broken_[side].empty()) {
      failures = kMaxFailures;
      return Fail(phase, sides_[side], broken_[side]);
    }
    if (phase.rest_ms > 0) Rest(phase.rest_ms);
    Samples take(*this, phase, sides_[side], counted);
    const Status status = phase.run(take);
    if (status) {
      failures = 0;
    } else if (phase.series.empty()) {
      broken_[side] = status.error().message();
      // Emits nothing here: the phases after it report this failure as theirs. If there are none,
      // nobody needs it.
    } else {
      ++failures;
      Fail(phase, sides_[side], status.error().message());
    }
  }

  void Fail(const Phase& phase, const Side& side, const std::string& message) {
    for (const Series& series : phase.series) {
      if (Chosen(series.name)) Emit("failure", series.name, side, message);
    }
  }

  const std::string group_;
  const std::vector<Side>& sides_;
  const Choice& choice_;
  const std::function<void(const std::string&)>& emit_;
  std::vector<std::string> broken_;  // errors of preparing phases, by side; nothing runs after one
  std::vector<std::vector<int>> failures_;
};

}  // namespace

void RunPhases(const std::string& group, const std::vector<Side>& sides, const Choice& choice,
               const std::function<void(const std::string&)>& emit) {
  Run(group, sides, choice, emit).All();
}

}  // namespace atl::bench
