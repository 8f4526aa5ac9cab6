// The real spawner's work for a sandbox: prepare a slot, build, destroy. The median of each
// of a build's steps, in microseconds, is a counter of Build. As root:  spawner_bench  (beside
// build/atoll-spawner, or $ATOLL_PROGRAMS names the directory).
#include <benchmark/benchmark.h>
#include <fcntl.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "bench/must.h"
#include "bench/own_spawner.h"
#include "bench/samples.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr uint32_t kLayers = 12;

std::unique_ptr<OwnSpawner>& TheSpawner() {
  static std::unique_ptr<OwnSpawner> spawner = [] {
    const char* named = std::getenv("ATOLL_PROGRAMS");
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    return Must(OwnSpawner::Start(
        named ? std::string(named) : self.parent_path().parent_path().string(), kLayers));
  }();
  return spawner;
}

void PrepareSlot(benchmark::State& state) {
  OwnSpawner& spawner = *TheSpawner();
  for (auto _ : state) {
    Must(spawner.Prepare(1));
    state.PauseTiming();
    Must(spawner.Drop(1));
    state.ResumeTiming();
  }
}
BENCHMARK(PrepareSlot)->Iterations(100)->Unit(benchmark::kMicrosecond)->UseRealTime();

// With rest before each, as requests come.
void Build(benchmark::State& state) {
  OwnSpawner& spawner = *TheSpawner();
  std::array<Samples, static_cast<size_t>(wire::Step::kCount)> steps;
  for (auto _ : state) {
    state.PauseTiming();
    Must(spawner.Prepare(1));
    Rest(20);
    state.ResumeTiming();
    const OwnSpawner::Sandbox sandbox =
        Must(spawner.Build(1, static_cast<uint32_t>(state.range(0))));
    state.PauseTiming();
    for (size_t i = 0; i < steps.size(); ++i) steps[i].AddMicros(sandbox.built.micros[i]);
    Must(spawner.Destroy(sandbox));
    state.ResumeTiming();
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string name(wire::StepName(static_cast<wire::Step>(i)));
    // Counters are shown by name; the number keeps the order of the steps.
    state.counters[std::to_string(10 + i) + "-" + name] = steps[i].p50() * 1000;
  }
}
BENCHMARK(Build)
    ->ArgName("layers")
    ->Arg(1)
    ->Arg(kLayers)
    ->Iterations(100)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

void Destroy(benchmark::State& state) {
  OwnSpawner& spawner = *TheSpawner();
  for (auto _ : state) {
    state.PauseTiming();
    Must(spawner.Prepare(1));
    const OwnSpawner::Sandbox sandbox = Must(spawner.Build(1, 1));
    state.ResumeTiming();
    Must(spawner.Destroy(sandbox));
  }
}
BENCHMARK(Destroy)->Iterations(100)->Unit(benchmark::kMicrosecond)->UseRealTime();

// Empty files made as fast as one process can, then removed by the janitor: what counts is the
// ratio, which must not be below 1, or trash piles up.
void RemoveFiles(benchmark::State& state) {
  OwnSpawner& spawner = *TheSpawner();
  const auto count = static_cast<int>(state.range(0));
  Samples made, removed;
  for (auto _ : state) {
    const std::string directory = Must(spawner.MakeVolume("files"));
    const int64_t began_us = SystemClock().BootMicros();
    for (int i = 0; i < count; ++i) {
      const UniqueFd made_file =
          Must(sys::Open(directory + "/" + std::to_string(i), O_WRONLY | O_CREAT | O_EXCL, 0600));
    }
    const int64_t full_us = SystemClock().BootMicros();
    Must(spawner.RemoveVolume("files"));
    made.AddMicros(full_us - began_us);
    removed.AddMicros(SystemClock().BootMicros() - full_us);
  }
  state.counters["made_per_s"] = count / (made.p50() / 1000);
  state.counters["removed_per_s"] = count / (removed.p50() / 1000);
  state.counters["ratio"] = made.p50() / removed.p50();
}
BENCHMARK(RemoveFiles)->Arg(20000)->Iterations(3)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  atl::bench::TheSpawner().reset();
}
