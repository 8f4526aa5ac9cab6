// Measures the daemon's own routes, with few sandboxes and with many: see bench/README.md.
#include <cstdio>
#include <string>
#include <vector>

#include "bench/api_phases.h"
#include "bench/host_view.h"
#include "bench/options.h"
#include "bench/promise_table.h"

namespace atl::bench {
namespace {

constexpr int kConnections = 32;
constexpr int kRateMs = 2000;
constexpr int kStreams = 50;

struct Options {
  std::string atolld, busybox, output;
  int sandboxes = 1000;
  int count = 50;
};

constexpr char kUsage[] =
    "usage: bench-api --atolld PROGRAM --busybox ARCHIVE [--output FILE]\n"
    "                 [--sandboxes COUNT] [-n COUNT]\n";

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

struct Results {
  HostFacts host;
  RouteTimes few, many;
  Rate health, get;
  Samples beside_stuck;
  int sandboxes = 0;
};

Result<Results> Measure(const Options& options) {
  Results results;
  results.host = ReadHostFacts();
  Progress("daemon, image");
  ATOLL_ASSIGN(const auto daemon, OwnDaemon::Start(options.atolld));
  ATOLL_ASSIGN(SandboxApi api, daemon->Connect());
  ATOLL_ASSIGN(
      LeanClient client,
      LeanClient::Connect(daemon->port(), "OPEN-SANDBOX-API-KEY: " + daemon->key() + "\r\n"));
  ATOLL_TRY(api.ImportImage(kApiImage, options.busybox));
  ATOLL_ASSIGN(const Sandbox one, api.Create(kApiImage));
  Progress("routes, two sandboxes");
  ATOLL_ASSIGN(results.few, MeasureRoutes(api, client, one.id, options.count));
  Progress("requests a second");
  const std::string& key = daemon->key();
  ATOLL_ASSIGN(results.health, MeasureRate(*daemon, key, "/health", kConnections, kRateMs));
  ATOLL_ASSIGN(results.get,
               MeasureRate(*daemon, key, "/v1/sandboxes/" + one.id, kConnections, kRateMs));
  Progress("stuck streams");
  ATOLL_ASSIGN(Sandbox flooding, api.Create(kApiImage));
  ATOLL_TRY(api.FindExecd(&flooding));
  ATOLL_ASSIGN(results.beside_stuck, MeasureBesideStuckStreams(*daemon, client, flooding, one.id,
                                                               kStreams, options.count * 40));
  // Its commands outlive the streams.
  ATOLL_TRY(api.Delete(flooding));
  Progress("many sandboxes");
  ATOLL_ASSIGN(const std::vector<Sandbox> many, Fill(*daemon, options.sandboxes));
  results.sandboxes = static_cast<int>(many.size()) + 1;
  ATOLL_TRY(api.AwaitQuiet());
  Progress("routes, many sandboxes");
  ATOLL_ASSIGN(results.many, MeasureRoutes(api, client, one.id, options.count));
  Progress("done");
  return results;
}

std::string RateRow(const std::string& what, const Rate& rate, double promise) {
  return PromiseRow(what + " a second and core (a second, with the client beside it)",
                    Fixed(rate.per_cpu_second, 0) + " (" + Fixed(rate.per_second, 0) + ")",
                    ">= " + Fixed(promise, 0), rate.per_cpu_second >= promise);
}

std::string Render(const Results& r) {
  const HostFacts& host = r.host;
  std::string text = host.cpu + "; " + host.kernel + "; " + host.cgroup + "; " + host.file_system +
                     "; load before: " + host.load + "\n\n";
  text += "| api | p50, ms | promise | kept |\n|---|---:|---:|---|\n";
  const std::string many = ", " + std::to_string(r.sandboxes) + " sandboxes";
  text += PromiseRow("list" + many, Quantiles(r.many.list), "<= 10", r.many.list.p50() <= 10);
  text += PromiseRow("get" + many, Quantiles(r.many.get), "<= 1", r.many.get.p50() <= 1);
  text += PromiseRow("create, one sandbox", Quantiles(r.few.create), "", true);
  const double ratio = r.many.create.p50() / r.few.create.p50();
  text += PromiseRow("create" + many, Quantiles(r.many.create) + ", " + Fixed(ratio, 2) + " times",
                     "<= 1.5 times", ratio <= 1.5);
  text += RateRow("`GET /health`", r.health, 20000);
  text += RateRow("`GET /v1/sandboxes/{id}`", r.get, 5000);
  text += PromiseRow("get beside " + std::to_string(kStreams) + " streams that nobody reads",
                     Quantiles(r.beside_stuck), "p99 < 10", r.beside_stuck.p99() < 10);
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
