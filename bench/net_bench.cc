// What one sandbox's network costs, in a network namespace of its own (run as root).
#include <benchmark/benchmark.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>

#include "netpolicy/guards.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/network.h"
#include "netpolicy/rules/conntrack.h"
#include "netpolicy/rules/nft.h"
#include "netpolicy/rules/ruleset.h"
#include "runtime/base/sys.h"

namespace atl::netpolicy {
namespace {

template <typename T>
T Must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "net_bench: %s\n", result.error().message().c_str());
  std::exit(1);
}

void Must(Status status) {
  if (status) return;
  std::fprintf(stderr, "net_bench: %s\n", status.error().message().c_str());
  std::exit(1);
}

Network& TheNetwork() {
  static const std::unique_ptr<Network> network = [] {
    if (::unshare(CLONE_NEWNET) != 0) std::perror("unshare");
    NetworkConfig config;
    config.instance = 7;
    return Must(Network::Open(config));
  }();
  return *network;
}

void AttachSlot(benchmark::State& state) {
  Network& network = TheNetwork();
  const UniqueFd host = Must(sys::Open("/proc/self/ns/net", O_RDONLY));
  uint32_t slot = 0;
  for (auto _ : state) {
    state.PauseTiming();
    slot = slot % kMaxSlot + 1;
    if (::unshare(CLONE_NEWNET) != 0) std::perror("unshare");
    const UniqueFd rtnetlink = Must(OpenNetlink(NETLINK_ROUTE));
    if (::setns(host.get(), CLONE_NEWNET) != 0) std::perror("setns");
    state.ResumeTiming();
    Must(network.AttachSlot(slot, rtnetlink.get()));
    // Its last descriptor closes with the next turn: the namespace dies by itself.
  }
  Must(network.Recover({}));
}
BENCHMARK(AttachSlot)->Iterations(200)->Unit(benchmark::kMicrosecond);

void SetElements(benchmark::State& state) {
  TheNetwork();
  const UniqueFd socket = Must(OpenNetlink(NETLINK_NETFILTER));
  for (auto _ : state) {
    NftTransaction add(TableName(7));
    AddSlotElements(add, 7, 1);
    Must(add.Commit(socket.get()));
    NftTransaction remove(TableName(7));
    DeleteSlotElements(remove, 7, 1);
    Must(remove.Commit(socket.get()));
  }
}
BENCHMARK(SetElements)->Unit(benchmark::kMicrosecond);

void InstallTable(benchmark::State& state) {
  TheNetwork();
  const UniqueFd socket = Must(OpenNetlink(NETLINK_NETFILTER));
  for (auto _ : state) {
    NftTransaction table(TableName(7));
    AddRuleset(table, {.instance = 7,
                       .guarded = DefaultPrivate(),
                       .proxy_port = 1,
                       .log_group = 1,
                       .max_connections = 1});
    Must(table.Commit(socket.get()));
  }
}
BENCHMARK(InstallTable)->Iterations(100)->Unit(benchmark::kMicrosecond);

void CutFlowsOfEmptyTable(benchmark::State& state) {
  TheNetwork();
  const UniqueFd socket = Must(OpenNetlink(NETLINK_NETFILTER));
  for (auto _ : state)
    benchmark::DoNotOptimize(
        Must(CutFlows(socket.get(), 7, [](const Flow& flow) { return flow.slot == 1; })));
}
BENCHMARK(CutFlowsOfEmptyTable)->Iterations(20)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace atl::netpolicy

BENCHMARK_MAIN();
