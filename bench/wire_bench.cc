// The messages of one create: plan and start message out, the build's reply back.
#include <benchmark/benchmark.h>

#include "bench/must.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"
#include "runtime/wire/start.h"

namespace atl::bench {
namespace {

wire::Plan PlanOf(int64_t layers) {
  wire::Plan plan;
  plan.id = NewSandboxId();
  plan.slot = 7;
  for (int64_t i = 0; i < layers; ++i) plan.layers.push_back(static_cast<wire::LayerId>(i + 1));
  plan.hostname = "d3954f87323e";
  plan.hosts = "127.0.0.1 localhost\n::1 localhost\n10.200.0.7 d3954f87323e\n";
  plan.resolv_conf = "nameserver 10.200.255.254\n";
  plan.limits = {512ULL << 20, 0, 512, 1000, 0, 0, 0, 0};
  return plan;
}

void EncodePlan(benchmark::State& state) {
  const wire::Plan plan = PlanOf(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(wire::EncodePlan(plan));
}
BENCHMARK(EncodePlan)->ArgName("layers")->Arg(1)->Arg(12)->Arg(128);

void DecodePlan(benchmark::State& state) {
  const std::string bytes = wire::EncodePlan(PlanOf(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(Must(wire::DecodePlan(bytes)));
}
BENCHMARK(DecodePlan)->ArgName("layers")->Arg(1)->Arg(12)->Arg(128);

void StartMessageThereAndBack(benchmark::State& state) {
  wire::StartMessage start;
  start.sandbox_id = NewSandboxId();
  start.argv = {"python3", "-m", "http.server"};
  for (int i = 0; i < 20; ++i) start.env.push_back("NAME" + std::to_string(i) + "=a value of it");
  start.access_token = std::string(43, 'x');
  for (auto _ : state) {
    benchmark::DoNotOptimize(Must(wire::DecodeStartMessage(start.Encode())));
  }
}
BENCHMARK(StartMessageThereAndBack);

void BuildReplyThereAndBack(benchmark::State& state) {
  wire::Reply reply;
  reply.number = 1;
  reply.pid = 4711;
  for (auto _ : state) benchmark::DoNotOptimize(Must(wire::DecodeReply(reply.Encode())));
}
BENCHMARK(BuildReplyThereAndBack);

}  // namespace
}  // namespace atl::bench

BENCHMARK_MAIN();
