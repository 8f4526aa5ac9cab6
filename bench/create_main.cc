// Measures Atoll end to end over HTTP, beside crun, runc and bwrap: see bench/README.md.
#include <algorithm>
#include <cstdio>
#include <map>

#include "bench/create_phases.h"
#include "bench/create_report.h"
#include "bench/host_view.h"
#include "bench/options.h"
#include "bench/own_daemon.h"
#include "bench/peers.h"
#include "bench/samples.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

struct Options {
  std::string atolld, busybox, debian, output;
  std::string only;  // one of the measurements, while something is being made faster
  int count = 200;
  int idle = 50;
  int seconds = 3;
};

constexpr char kUsage[] =
    "usage: bench-create --atolld PROGRAM --busybox ARCHIVE --debian ARCHIVE\n"
    "                    [--output FILE] [-n COUNT] [--idle SANDBOXES] [--seconds SECONDS]\n"
    "                    [--only cold|exec|delete|memory|throughput|bursts]\n";

Result<Options> ReadOptions(const std::vector<std::string>& arguments) {
  Options options;
  ATOLL_TRY(ParseOptions(arguments, {.texts = {{"--atolld", &options.atolld},
                                               {"--busybox", &options.busybox},
                                               {"--debian", &options.debian},
                                               {"--output", &options.output},
                                               {"--only", &options.only}},
                                     .numbers = {{"-n", &options.count},
                                                 {"--idle", &options.idle},
                                                 {"--seconds", &options.seconds}},
                                     .required = {"--atolld", "--busybox", "--debian"}}));
  return options;
}

Result<Results> Measure(const Options& options) {
  Results results;
  results.host = ReadHostFacts();
  results.count = options.count;
  Progress("daemon, images, peers");
  ATOLL_ASSIGN(const auto daemon, OwnDaemon::Start(options.atolld));
  ATOLL_ASSIGN(SandboxApi api, daemon->Connect());
  ATOLL_TRY(api.ImportImage(kBusyboxImage, options.busybox));
  ATOLL_TRY(api.ImportImage(kDebianImage, options.debian));
  ATOLL_ASSIGN(const auto peers, Peers::Open(daemon->top() + "/peers"));
  const auto wants = [&](const char* what) {
    if (!options.only.empty() && options.only != what) return false;
    Progress(what);
    return true;
  };
  if (wants("cold")) {
    ATOLL_ASSIGN(results.cold, MeasureCold(api, *peers, options.count));
  }
  if (wants("exec")) {
    ATOLL_ASSIGN(results.exec, MeasureExec(api, options.count));
  }
  if (wants("delete")) {
    ATOLL_ASSIGN(results.deletes, MeasureDelete(*daemon, api, std::max(5, options.count / 2)));
  }
  if (wants("memory")) {
    ATOLL_ASSIGN(results.idle, MeasureIdle(*daemon, api, options.idle));
  }
  if (wants("throughput")) {
    for (const int clients : {1, 2, 8}) {
      ATOLL_ASSIGN(results.throughput.emplace_back(),
                   MeasureThroughput(*daemon, api, clients, options.seconds));
    }
  }
  if (wants("bursts")) {
    for (const auto& [size, rounds] : {std::pair{1, 10}, {8, 10}, {100, 5}}) {
      ATOLL_ASSIGN(results.bursts.emplace_back(), MeasureBurst(*daemon, api, size, rounds));
    }
  }
  Progress("done");
  return results;
}

int Main(const Options& options) {
  const auto results = Measure(options);
  if (!results) return CannotMeasure(results.error());
  const std::string text = RenderTables(*results) + RenderPromises(*results);
  std::fputs(text.c_str(), stdout);
  if (const Status written = WriteOutput(options.output, text); !written) {
    return CannotMeasure(written.error());
  }
  const std::vector<std::string> violations = Violations(*results);
  for (const std::string& line : violations) std::fprintf(stderr, "bench: %s\n", line.c_str());
  return violations.empty() ? 0 : 1;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  using namespace atl::bench;
  return RunBench(ReadOptions({argv + 1, argv + argc}), kUsage, Main);
}
