// Measures the exec API of a live sandbox, and execd itself: see bench/README.md.
#include <cstdio>
#include <string>
#include <vector>

#include "bench/exec_phases.h"
#include "bench/host_view.h"
#include "bench/options.h"
#include "bench/promise_table.h"

namespace atl::bench {
namespace {

constexpr char kImage[] = "bench-busybox:1";
constexpr char kSmall[] = R"({"memory":"64Mi"})";
constexpr uint64_t kTransfer = uint64_t{128} << 20;
constexpr int kRounds = 7;
constexpr int kCommands = 100;

struct Options {
  std::string atolld, execd, busybox, output;
};

constexpr char kUsage[] =
    "usage: bench-exec --atolld PROGRAM --execd PROGRAM --busybox ARCHIVE [--output FILE]\n";

Result<Options> ReadOptions(const std::vector<std::string>& arguments) {
  Options options;
  ATOLL_TRY(ParseOptions(arguments, {.texts = {{"--atolld", &options.atolld},
                                               {"--execd", &options.execd},
                                               {"--busybox", &options.busybox},
                                               {"--output", &options.output}},
                                     .numbers = {},
                                     .required = {"--atolld", "--execd", "--busybox"}}));
  return options;
}

struct Results {
  HostFacts host;
  ProgramResults program;
  FileResults files;
  TransferResults transfers;
  Samples at_once, at_once_small;
};

Result<Results> Measure(const Options& options) {
  Results results;
  results.host = ReadHostFacts();
  ATOLL_ASSIGN(const auto daemon, OwnDaemon::Start(options.atolld));
  // Forked before this process has threads.
  ATOLL_ASSIGN(const auto relay, Relay::Start(daemon->top() + "/relay"));
  ATOLL_ASSIGN(SandboxApi api, daemon->Connect());
  ATOLL_TRY(api.ImportImage(kImage, options.busybox));
  const auto create = [&](const std::string& limits) -> Result<Sandbox> {
    ATOLL_ASSIGN(Sandbox sandbox, api.Create(kImage, limits));
    ATOLL_TRY(api.FindExecd(&sandbox));
    ATOLL_TRY(api.Echo(sandbox, nullptr));
    return sandbox;
  };
  ATOLL_ASSIGN(const Sandbox sandbox, create("{}"));
  ATOLL_ASSIGN(const Sandbox small, create(kSmall));
  ATOLL_ASSIGN(results.program, MeasureProgram(*daemon, options.execd));
  ATOLL_ASSIGN(results.files, MeasureFiles(*daemon, sandbox, 200));
  ATOLL_ASSIGN(results.transfers, MeasureTransfers(*daemon, *relay, sandbox, kTransfer, kRounds));
  ATOLL_ASSIGN(results.at_once, MeasureCommandsAtOnce(*daemon, sandbox, kCommands, kRounds));
  ATOLL_ASSIGN(results.at_once_small, MeasureCommandsAtOnce(*daemon, small, kCommands, kRounds));
  return results;
}

std::string Transfer(const std::string& what, const Samples& ours, const Samples& relay) {
  const double ratio = relay.p50() > 0 ? ours.p50() / relay.p50() : 0;
  return PromiseRow(what + ", 128 MiB, of a plain relay's " + Fixed(relay.p50(), 0) + " MiB/s",
                    Fixed(100 * ratio, 0) + " % (" + Fixed(ours.p50(), 0) + " MiB/s)", ">= 70 %",
                    ratio >= 0.7);
}

std::string Render(const Results& r) {
  const HostFacts& host = r.host;
  std::string text = host.cpu + "; " + host.kernel + "; " + host.cgroup + "; " + host.file_system +
                     "; load before: " + host.load + "\n\n";
  text += "| exec | p50 | promise | kept |\n|---|---:|---:|---|\n";
  const double mib = static_cast<double>(r.program.stripped_bytes) / 1048576;
  text += PromiseRow("execd, stripped, MiB", Fixed(mib, 2), "<= 2", mib <= 2);
  text += PromiseRow("execd, own memory after a command, KiB", std::to_string(r.program.idle_kib),
                     "<= 1024", r.program.idle_kib <= 1024);
  text += PromiseRow("execd, spawned to parked and ended, ms", Quantiles(r.program.parked), "<= 1",
                     r.program.parked.p50() <= 1);
  text +=
      PromiseRow("write of 64 KiB, ms", Quantiles(r.files.write), "<= 1", r.files.write.p50() <= 1);
  text +=
      PromiseRow("read of 64 KiB, ms", Quantiles(r.files.read), "<= 1", r.files.read.p50() <= 1);
  const double calls = r.files.calls_a_second.p50() * 1000;
  text +=
      PromiseRow("file calls a second, 300 in a row", Fixed(calls, 0), ">= 3000", calls >= 3000);
  text += Transfer("upload", r.transfers.up, r.transfers.relay_up);
  text += Transfer("download", r.transfers.down, r.transfers.relay_down);
  text += PromiseRow("100 commands at once, ms", Quantiles(r.at_once), "all correct", true);
  text += PromiseRow("the same in a sandbox of 64 MiB, ms", Quantiles(r.at_once_small),
                     "all correct", true);
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
