// What one sandbox's cgroups cost, in a base group of the benchmark's own. As root.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include "bench/must.h"
#include "cgroup/tree.h"

namespace atl::bench {
namespace {

constexpr uid_t kOwner = 0x78000000;
const cgroup::Limits kDefaults{.memory_bytes = 512ULL << 20, .pids = 512, .cpu_millis = 1000};

const std::string& BaseName() {
  static const std::string name = "atoll-bench-" + std::to_string(::getpid());
  return name;
}

cgroup::Tree& TheTree() {
  static const cgroup::Host host = Must(cgroup::DetectHost());
  static cgroup::Tree tree = Must(cgroup::Tree::Create(host, host.unified, BaseName(), ""));
  return tree;
}

void CreateAndRemove(benchmark::State& state) {
  const cgroup::Tree& tree = TheTree();
  for (auto _ : state) {
    Must(tree.CreateGroup("s1"));
    Must(tree.DelegateGroup("s1", kOwner));
    Must(tree.RemoveGroup("s1"));
  }
}
BENCHMARK(CreateAndRemove)->Iterations(200)->Unit(benchmark::kMicrosecond);

void SetAllLimits(benchmark::State& state) {
  const cgroup::Tree& tree = TheTree();
  Must(tree.CreateGroup("s1"));
  Must(tree.DelegateGroup("s1", kOwner));
  cgroup::Limits other = kDefaults;
  other.memory_bytes /= 2;
  other.pids /= 2;
  other.cpu_millis /= 2;
  Must(tree.SetLimits("s1", {}, other));
  for (auto _ : state) {
    Must(tree.SetLimits("s1", other, kDefaults));
    state.PauseTiming();
    Must(tree.SetLimits("s1", kDefaults, other));
    state.ResumeTiming();
  }
  Must(tree.RemoveGroup("s1"));
}
BENCHMARK(SetAllLimits)->Iterations(200)->Unit(benchmark::kMicrosecond);

// A build whose plan says what its slot was prepared with.
void SetNoLimit(benchmark::State& state) {
  for (auto _ : state) Must(TheTree().SetLimits("s1", kDefaults, kDefaults));
}
BENCHMARK(SetNoLimit);

void ReadUsage(benchmark::State& state) {
  const cgroup::Tree& tree = TheTree();
  Must(tree.CreateGroup("s1"));
  for (auto _ : state) benchmark::DoNotOptimize(Must(tree.ReadUsage("s1")));
  Must(tree.RemoveGroup("s1"));
}
BENCHMARK(ReadUsage)->Unit(benchmark::kMicrosecond);

void RemoveBase() {
  const cgroup::Host host = TheTree().host();
  ::rmdir((host.unified + "/" + BaseName()).c_str());
  for (const auto& [controller, mount] : host.v1) ::rmdir((mount + "/" + BaseName()).c_str());
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  atl::bench::RemoveBase();
}
