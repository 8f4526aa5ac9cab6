// The sandbox filter: compiled once at the spawner's start, loaded in every build.
#include <benchmark/benchmark.h>
#include <sys/prctl.h>

#include <chrono>
#include <thread>

#include "bench/must.h"
#include "runtime/spawner/seccomp.h"

namespace atl::bench {
namespace {

void CompileFilter(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(spawner::BuildSandboxFilter());
  state.counters["instructions"] = static_cast<double>(spawner::BuildSandboxFilter().size());
}
BENCHMARK(CompileFilter)->Unit(benchmark::kMicrosecond);

// In a new thread each: filters pile up on the one that has them, for good.
void LoadFilter(benchmark::State& state) {
  const spawner::BpfProgram program = spawner::BuildSandboxFilter();
  for (auto _ : state) {
    std::chrono::duration<double> took{};
    std::thread([&] {
      if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) std::perror("PR_SET_NO_NEW_PRIVS");
      const auto start = std::chrono::steady_clock::now();
      const Status loaded = spawner::LoadFilter(program);
      took = std::chrono::steady_clock::now() - start;
      Must(loaded);
    }).join();
    state.SetIterationTime(took.count());
  }
}
BENCHMARK(LoadFilter)->UseManualTime()->Iterations(500)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace atl::bench

BENCHMARK_MAIN();
