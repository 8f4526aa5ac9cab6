// Measures the name server of the sandboxes: see bench/README.md.
#include <cstdio>
#include <string>
#include <vector>

#include "bench/dns_phases.h"
#include "bench/dns_servers.h"
#include "bench/host_view.h"
#include "bench/options.h"
#include "bench/promise_table.h"

namespace atl::bench {
namespace {

constexpr int kNames = 1000;
constexpr int kRateMs = 1500;
constexpr int kRounds = 5;
constexpr int kRestMs = 2;
constexpr unsigned kClientProcessor = 0;
constexpr unsigned kServerProcessor = 1;
// Of what the same thread would do if it sent every datagram back as it is, by single calls: this
// holds on a slow machine as on a fast one.
constexpr double kLeastOfEcho = 0.6;

struct Options {
  std::string output;
  int count = 400;
};

constexpr char kUsage[] = "usage: bench-dns [--output FILE] [--count N]\n";

Result<Options> ReadOptions(const std::vector<std::string>& arguments) {
  Options options;
  ATOLL_TRY(ParseOptions(arguments, {.texts = {{"--output", &options.output}},
                                     .numbers = {{"--count", &options.count}},
                                     .required = {}}));
  return options;
}

struct Results {
  HostFacts host;
  Samples names, names_wall, echo;  // a second
  DnsDelays delays;
};

Result<Results> Measure(const Options& options) {
  Results results;
  results.host = ReadHostFacts();
  ATOLL_TRY(EnterOwnNetwork());
  PinThread(kClientProcessor);
  using Kind = DatagramServer::Kind;
  ATOLL_ASSIGN(const auto upstream, DatagramServer::Start(Kind::kNames, kClientProcessor));
  ATOLL_ASSIGN(const auto echo, DatagramServer::Start(Kind::kEcho, kServerProcessor));
  ATOLL_ASSIGN(const auto server, NameServer::Start(upstream->endpoint(), kServerProcessor));
  // Samples are of time: a rate goes in as thousands a second.
  const auto add = [](Samples& samples, double rate) {
    samples.AddMicros(static_cast<int64_t>(rate));
  };
  for (int round = 0; round < kRounds; ++round) {
    Progress("answers a second");
    ATOLL_ASSIGN(
        const DnsRateResult ours,
        MeasureDnsRate(
            server->endpoint(), [&] { return server->ProcessorSeconds(); }, kNames, kRateMs));
    ATOLL_ASSIGN(
        const DnsRateResult floor,
        MeasureDnsRate(
            echo->endpoint(), [&] { return echo->ProcessorSeconds(); }, kNames, kRateMs / 2));
    add(results.names, ours.per_processor_second);
    add(results.names_wall, ours.per_second);
    add(results.echo, floor.per_processor_second);
  }
  Progress("delays");
  ATOLL_ASSIGN(results.delays,
               MeasureDnsDelays(
                   upstream->endpoint(), server->endpoint(),
                   [&] { return server->ProcessorSeconds(); }, options.count, kRestMs));
  Progress("done");
  return results;
}

double EchoRatio(const Results& r) {
  return r.echo.p50() > 0 ? r.names.p50() / r.echo.p50() : 0;
}

std::string Render(const Results& r) {
  const HostFacts& host = r.host;
  std::string text = host.cpu + "; " + host.kernel + "; load before: " + host.load + "\n\n";
  text += "| dns | p50 | promise | kept |\n|---|---:|---:|---|\n";
  const double rate = r.names.p50() * 1000;
  text += PromiseRow(
      "answers from the cache, a second and core (a second, with the client beside it)",
      Fixed(rate, 0) + " (" + Fixed(r.names_wall.p50() * 1000, 0) + ")", ">= 20000", rate >= 20000);
  text += PromiseRow("the same, of a plain echo's " + Fixed(r.echo.p50() * 1000, 0),
                     Fixed(100 * EchoRatio(r), 0) + " %",
                     ">= " + Fixed(100 * kLeastOfEcho, 0) + " %", EchoRatio(r) >= kLeastOfEcho);
  text += PromiseRow("the upstream asked directly, ms", Quantiles(r.delays.direct), "", true);
  text += PromiseRow("through the name server, ms", Quantiles(r.delays.forwarded), "", true);
  const double added = r.delays.forwarded.p50() - r.delays.direct.p50();
  text += PromiseRow("added, ms", Fixed(added, 2), "<= 0.3", added <= 0.3);
  text += PromiseRow("from the cache, ms", Quantiles(r.delays.cached), "", true);
  const double busy = r.delays.processor_ms;
  text += PromiseRow("its processor time for these two, ms", Fixed(busy, 3), "", true);
  return text;
}

int Main(const Options& options) {
  const auto results = Measure(options);
  if (!results) return CannotMeasure(results.error());
  const std::string text = Render(*results);
  std::fputs(text.c_str(), stdout);
  const Status written = WriteOutput(options.output, text);
  if (!written) return CannotMeasure(written.error());
  return EchoRatio(*results) >= kLeastOfEcho ? 0 : 1;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  using namespace atl::bench;
  return RunBench(ReadOptions({argv + 1, argv + argc}), kUsage, Main);
}
