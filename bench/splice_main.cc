// Measures the splice proxy against a forwarded connection: see bench/README.md.
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "bench/host_view.h"
#include "bench/options.h"
#include "bench/promise_table.h"
#include "bench/splice_lab.h"

namespace atl::bench {
namespace {

constexpr uint64_t kSize = uint64_t{1} << 29;  // of all connections together
constexpr size_t kAtOnce[] = {1, 8};
constexpr int kRounds = 7;
constexpr int kConnections = 200;

struct Options {
  std::string output;
};

constexpr char kUsage[] = "usage: bench-splice [--output FILE]\n";

Result<Options> ReadOptions(const std::vector<std::string>& arguments) {
  Options options;
  ATOLL_TRY(ParseOptions(
      arguments, {.texts = {{"--output", &options.output}}, .numbers = {}, .required = {}}));
  return options;
}

struct Flow {
  Samples rate, cores;  // gigabytes a second; both in thousands, as Samples counts
};

struct Results {
  HostFacts host;
  Flow flows[2][2][std::size(kAtOnce)];  // by path, direction, number of connections
  Samples first_byte[2];
};

Status MeasureRound(SpliceLab& lab, Results& results) {
  for (size_t many = 0; many < std::size(kAtOnce); ++many) {
    for (const Direction direction : {Direction::kUp, Direction::kDown}) {
      for (const Path path : {Path::kForwarded, Path::kSpliced}) {
        ATOLL_ASSIGN(const Transfer transfer,
                     lab.Measure(path, direction, kSize / kAtOnce[many], kAtOnce[many]));
        Flow& flow = results.flows[static_cast<size_t>(path)][static_cast<size_t>(direction)][many];
        flow.rate.AddMicros(static_cast<int64_t>(transfer.bytes_a_second / 1e6));
        flow.cores.AddMicros(static_cast<int64_t>(transfer.busy_cores * 1e3));
      }
    }
  }
  return {};
}

Result<Results> Measure() {
  Results results;
  results.host = ReadHostFacts();
  ATOLL_ASSIGN(const auto lab, SpliceLab::Start());
  Progress("transfers");
  for (int round = 0; round < kRounds; ++round) ATOLL_TRY(MeasureRound(*lab, results));
  Progress("first bytes");
  for (int i = 0; i < kConnections; ++i) {
    for (const Path path : {Path::kForwarded, Path::kSpliced}) {
      Rest(2);
      ATOLL_ASSIGN(const int64_t micros, lab->FirstByte(path));
      results.first_byte[static_cast<size_t>(path)].AddMicros(micros);
    }
  }
  return results;
}

// The promise is for a flow by itself.
std::string Row(const std::string& what, size_t at_once, const Flow& forwarded,
                const Flow& spliced) {
  const double ratio = forwarded.rate.p50() > 0 ? spliced.rate.p50() / forwarded.rate.p50() : 0;
  const std::string measured = Fixed(100 * ratio, 0) + " % (" + Fixed(spliced.rate.p50(), 2) +
                               " GB/s, " + Fixed(spliced.cores.p50(), 2) + " cores)";
  const std::string of = ", 512 MiB, of " + Fixed(forwarded.rate.p50(), 2) +
                         " GB/s forwarded with " + Fixed(forwarded.cores.p50(), 2) + " cores busy";
  if (at_once == 1) return PromiseRow(what + of, measured, ">= 70 %", ratio >= 0.7);
  return "| " + what + ", " + std::to_string(at_once) + " at once" + of + " | " + measured +
         " | | |\n";
}

std::string Render(const Results& r) {
  const HostFacts& host = r.host;
  std::string text = host.cpu + "; " + host.kernel + "; load before: " + host.load + "\n\n";
  text += "| splice proxy | p50 | promise | kept |\n|---|---:|---:|---|\n";
  for (size_t many = 0; many < std::size(kAtOnce); ++many) {
    text += Row("upload", kAtOnce[many], r.flows[0][0][many], r.flows[1][0][many]);
    text += Row("download", kAtOnce[many], r.flows[0][1][many], r.flows[1][1][many]);
  }
  text += "| connect to first byte, forwarded, ms | " + Quantiles(r.first_byte[0]) + " | | |\n";
  text += "| connect to first byte, spliced, ms | " + Quantiles(r.first_byte[1]) + " | | |\n";
  return text;
}

int Main(const Options& options) {
  const auto results = Measure();
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
