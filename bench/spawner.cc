// Measures the real spawner's work for a sandbox, without a daemon: slots, builds and their steps,
// ends.
#include <fcntl.h>

#include "bench/clock.h"
#include "bench/own_spawner.h"
#include "bench/phase.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr uint32_t kLayers = 12;
constexpr int kCount = 100;
constexpr int kFiles = 20000;

using LabPtr = std::shared_ptr<std::unique_ptr<OwnSpawner>>;

// Adds the steps of a slot, or those of a build.
void AddSteps(const wire::StepMicros& micros, bool slot, const std::string& how, Take& take) {
  for (size_t i = 0; i < micros.size(); ++i) {
    const auto step = static_cast<wire::Step>(i);
    if ((step < wire::kFirstBuildStep) != slot) continue;
    take.Add("step " + std::string(wire::StepName(step)) + how, micros[i]);
  }
}

std::vector<Series> StepSeries(bool slot, const std::string& how) {
  std::vector<Series> series;
  for (size_t i = 0; i < static_cast<size_t>(wire::Step::kCount); ++i) {
    const auto step = static_cast<wire::Step>(i);
    if ((step < wire::kFirstBuildStep) != slot) continue;
    series.push_back(
        {"step " + std::string(wire::StepName(step)) + how, "the spawner's own time", "µs", {}});
  }
  return series;
}

Phase SlotPhase(const LabPtr& lab) {
  Phase phase{.series = {{"slot", "asked → prepared, ahead of a create", "ms", {}}},
              .samples = kCount,
              .run = [=](Take& take) -> Status {
                const int64_t start = NowMicros();
                ATOLL_ASSIGN(const wire::StepMicros steps, (*lab)->Prepare(1));
                take.AddMs("slot", MicrosSince(start));
                AddSteps(steps, true, "", take);
                return (*lab)->Drop(1);
              }};
  for (Series& step : StepSeries(true, "")) phase.series.push_back(std::move(step));
  return phase;
}

// Rests before each sample, because real requests do not follow each other at once.
Phase BuildPhase(const LabPtr& lab, uint32_t layers) {
  const std::string how = layers == 1 ? ", 1 layer" : ", " + std::to_string(layers) + " layers";
  Phase phase{.series = {{"build" + how, "asked → answered, in a prepared slot", "ms", {}},
                         {"destroy" + how, "asked → all of it is gone", "ms", {}}},
              .samples = kCount,
              .turns = "build",
              .run = [=](Take& take) -> Status {
                ATOLL_TRY((*lab)->Prepare(1));
                Rest(20);
                int64_t start = NowMicros();
                ATOLL_ASSIGN(const OwnSpawner::Sandbox sandbox, (*lab)->Build(1, layers));
                take.AddMs("build" + how, MicrosSince(start));
                AddSteps(sandbox.built.micros, false, how, take);
                start = NowMicros();
                ATOLL_TRY((*lab)->Destroy(sandbox));
                take.AddMs("destroy" + how, MicrosSince(start));
                return {};
              }};
  for (Series& step : StepSeries(false, how)) phase.series.push_back(std::move(step));
  return phase;
}

// Creates empty files as fast as one process can, then lets the janitor remove them. If the janitor
// is slower, the trash of real sandboxes piles up.
Status Remove(OwnSpawner& spawner, Take& take) {
  ATOLL_ASSIGN(const std::string directory, spawner.MakeVolume("files"));
  const auto rate = [](int64_t start) {
    return kFiles * 1e6 / static_cast<double>(MicrosSince(start));
  };
  int64_t start = NowMicros();
  for (int i = 0; i < kFiles; ++i) {
    ATOLL_TRY(sys::Open(directory + "/" + std::to_string(i), O_WRONLY | O_CREAT | O_EXCL, 0600));
  }
  take.Add("files made", rate(start));
  start = NowMicros();
  ATOLL_TRY(spawner.RemoveVolume("files"));
  take.Add("files removed", rate(start));
  return {};
}

}  // namespace

Phases SpawnerPhases(const Setting& setting) {
  const auto lab = std::make_shared<std::unique_ptr<OwnSpawner>>();
  return {
      {.run = [=](Take&) -> Status {
        ATOLL_ASSIGN(*lab, OwnSpawner::Start(setting.programs, kLayers));
        return {};
      }},
      SlotPhase(lab),
      BuildPhase(lab, 1),
      BuildPhase(lab, kLayers),
      {.series = {{"files made", "20,000 empty ones in a directory, by one process", "1/s", {}},
                  {"files removed",
                   "the same, by the janitor",
                   "1/s",
                   {{.at_least = 1, .over = "spawner/files made"}}}},
       .samples = 3,
       .run = [=](Take& take) { return Remove(**lab, take); }},
  };
}

}  // namespace atl::bench
