// Measures network policies: see bench/README.md.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/host_view.h"
#include "bench/network_phases.h"
#include "bench/options.h"
#include "bench/promise_table.h"

namespace atl::bench {
namespace {

constexpr int kFew = 10, kMost = 4096, kEach = 50;
constexpr uint64_t kTransfer = uint64_t{512} << 20;
constexpr int kRounds = 9;
constexpr int kLooks = 100, kLookMs = 20;

struct Options {
  std::string atolld, busybox, output;
  int sandboxes = 1000;
  int count = 60;
};

constexpr char kUsage[] =
    "usage: bench-network --atolld PROGRAM --busybox ARCHIVE [--output FILE]\n"
    "                     [--sandboxes COUNT] [-n COUNT]\n";

Result<Options> ReadOptions(const std::vector<std::string>& arguments) {
  Options options;
  ATOLL_TRY(ParseOptions(arguments,
                         {.texts = {{"--atolld", &options.atolld},
                                    {"--busybox", &options.busybox},
                                    {"--output", &options.output}},
                          .numbers = {{"--sandboxes", &options.sandboxes}, {"-n", &options.count}},
                          .required = {"--atolld", "--busybox"}}));
  return options;
}

// Megabytes a second, by direction.
struct Flow {
  Samples up, down;  // in thousands, as Samples counts
};

struct Results {
  HostFacts host;
  ApplyTimes few_rules, most_rules, one_rule;
  CreateTimes alone, among_few, among_many;
  Flow plain, open, policed;
  int sandboxes = 0;
};

Status AddTransfer(const Result<double>& bytes_a_second, Samples* samples) {
  if (!bytes_a_second) return Fail(bytes_a_second.error());
  samples->AddMicros(static_cast<int64_t>(*bytes_a_second / 1e3));
  return {};
}

Status MeasureFlows(TrafficLab& lab, pid_t open, pid_t policed, Results* results) {
  using Direction = TrafficLab::Direction;
  for (int round = 0; round < kRounds; ++round) {
    for (const Direction way : {Direction::kUp, Direction::kDown}) {
      const auto samples = [way](Flow& flow) {
        return way == Direction::kUp ? &flow.up : &flow.down;
      };
      ATOLL_TRY(AddTransfer(lab.FromPlain(way, kTransfer), samples(results->plain)));
      ATOLL_TRY(AddTransfer(lab.FromProcess(open, way, kTransfer), samples(results->open)));
      ATOLL_TRY(AddTransfer(lab.FromProcess(policed, way, kTransfer), samples(results->policed)));
    }
  }
  return {};
}

// The pids of two new sandboxes, without a policy and with one.
Result<std::pair<pid_t, pid_t>> CreatePair(const OwnDaemon& daemon, SandboxApi& api,
                                           std::string* policed_id) {
  pid_t pids[2] = {-1, -1};
  for (int i = 0; i < 2; ++i) {
    const std::string policy = ",\"networkPolicy\":" + PolicyJson(kFew);
    ATOLL_ASSIGN(const Sandbox sandbox, api.Create(kNetworkImage, "{}", i == 1 ? policy : ""));
    *policed_id = sandbox.id;
    // It is there when its process is among the spawner's children, which a look at /proc can miss.
    for (int look = 0; look < kLooks && pids[i] < 0; ++look) {
      if (look > 0) Rest(kLookMs);
      ATOLL_ASSIGN(const auto places, FindSandboxes(daemon.spawner(), daemon.data_dir()));
      for (const Place& place : places) {
        if (place.pid != pids[0]) pids[i] = place.pid;
      }
    }
  }
  if (pids[0] < 0 || pids[1] < 0) return Fail(Code::kInternal, "sandboxes without a process");
  return std::pair(pids[0], pids[1]);
}

Result<Results> Measure(const Options& options) {
  Results results;
  results.host = ReadHostFacts();
  ATOLL_ASSIGN(const auto lab, TrafficLab::Start());
  Progress("daemon, image");
  ATOLL_ASSIGN(const auto daemon, OwnDaemon::Start(options.atolld));
  ATOLL_ASSIGN(SandboxApi api, daemon->Connect());
  ATOLL_ASSIGN(
      LeanClient client,
      LeanClient::Connect(daemon->port(), "OPEN-SANDBOX-API-KEY: " + daemon->key() + "\r\n"));
  ATOLL_TRY(api.ImportImage(kNetworkImage, options.busybox));
  std::string policed;
  ATOLL_ASSIGN(const auto pids, CreatePair(*daemon, api, &policed));
  ATOLL_TRY(api.AwaitQuiet());
  Progress("throughput");
  ATOLL_TRY(MeasureFlows(*lab, pids.first, pids.second, &results));
  Progress("apply");
  ATOLL_ASSIGN(const PolicyApi policy, FindPolicyApi(client, policed));
  ATOLL_ASSIGN(
      results.few_rules,
      MeasureApply(client, policy, {PolicyJson(kFew), PolicyJson(kFew, 1)}, options.count));
  ATOLL_ASSIGN(
      results.most_rules,
      MeasureApply(client, policy, {PolicyJson(kMost), PolicyJson(kMost, 1)}, options.count / 2));
  ATOLL_ASSIGN(
      results.one_rule,
      MeasureApply(client, policy, {PolicyJson(kMost), PolicyJson(kMost - 1)}, options.count / 2));
  Progress("creates");
  ATOLL_ASSIGN(results.alone, MeasureCreates(api, kFew, options.count));
  ATOLL_TRY(FillPoliced(*daemon, kFew, kEach));
  ATOLL_TRY(api.AwaitQuiet());
  ATOLL_ASSIGN(results.among_few, MeasureCreates(api, kEach, options.count));
  Progress("many sandboxes");
  ATOLL_TRY(FillPoliced(*daemon, options.sandboxes - kFew, kEach));
  results.sandboxes = options.sandboxes;
  ATOLL_TRY(api.AwaitQuiet());
  ATOLL_ASSIGN(results.among_many, MeasureCreates(api, kEach, options.count));
  Progress("done");
  return results;
}

std::string ApplyRow(const std::string& what, const ApplyTimes& times, double promise) {
  const double apply = times.put.p50() - times.round_trip.p50();
  return PromiseRow(
      what + ", ms: PUT answered, less an empty request of " + Fixed(times.round_trip.p50(), 2),
      Fixed(apply, 2) + " (PUT " + Quantiles(times.put) + ")", "<= " + Fixed(promise, 0),
      apply <= promise);
}

std::string FlowRow(const std::string& what, const Samples& plain, const Samples& flow,
                    bool promised) {
  const double ratio = plain.p50() > 0 ? flow.p50() / plain.p50() : 0;
  return PromiseRow(what + ", of " + Fixed(plain.p50() / 1000, 2) + " GB/s without rules",
                    Fixed(100 * ratio, 0) + " % (" + Fixed(flow.p50() / 1000, 2) + " GB/s)",
                    promised ? ">= 90 %" : "", !promised || ratio >= 0.9);
}

std::string Render(const Results& r) {
  const HostFacts& host = r.host;
  std::string text = host.cpu + "; " + host.kernel + "; load before: " + host.load + "\n\n";
  text += "| network | p50 | promise | kept |\n|---|---:|---:|---|\n";
  text += ApplyRow("apply " + std::to_string(kFew) + " other rules", r.few_rules, 1);
  text += ApplyRow("apply " + std::to_string(kMost) + " other rules", r.most_rules, 20);
  text += ApplyRow("apply " + std::to_string(kMost) + " rules, one of them new", r.one_rule, 20);
  const double more = r.alone.policed.p50() - r.alone.plain.p50();
  text +=
      PromiseRow("create with 10 rules over one without (" + Quantiles(r.alone.plain) + "), ms",
                 Fixed(more, 2) + " (" + Quantiles(r.alone.policed) + ")", "<= 0.3", more <= 0.3);
  const std::string many = std::to_string(r.sandboxes);
  const double ratio = r.among_many.policed.p50() / r.among_few.policed.p50();
  text += PromiseRow("create among " + many + " sandboxes with 50 rules each, of " +
                         Fixed(r.among_few.policed.p50(), 2) + " ms among 10",
                     Fixed(ratio, 2) + " times (" + Quantiles(r.among_many.policed) + ")",
                     "<= 1.3 times", ratio <= 1.3);
  const double plain_ratio = r.among_many.plain.p50() / r.among_few.plain.p50();
  text += PromiseRow(
      "the same without a policy of its own, of " + Fixed(r.among_few.plain.p50(), 2) + " ms",
      Fixed(plain_ratio, 2) + " times (" + Quantiles(r.among_many.plain) + ")", "", true);
  text += FlowRow("flow up, allowed by address", r.plain.up, r.policed.up, true);
  text += FlowRow("flow down, allowed by address", r.plain.down, r.policed.down, true);
  text += FlowRow("flow up, no policy", r.plain.up, r.open.up, false);
  text += FlowRow("flow down, no policy", r.plain.down, r.open.down, false);
  return text;
}

int Main(const Options& options) {
  const auto results = Measure(options);
  if (!results) return CannotMeasure(results.error());
  const std::string text = Render(*results);
  std::fputs(text.c_str(), stdout);
  const Status written = WriteOutput(options.output, text);
  return written ? 0 : CannotMeasure(written.error());
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  using namespace atl::bench;
  return RunBench(ReadOptions({argv + 1, argv + argc}), kUsage, Main);
}
