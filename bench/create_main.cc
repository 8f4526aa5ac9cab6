// Measures Atoll end to end over HTTP, beside crun, runc and bwrap: see bench/README.md.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>

#include "bench/create_phases.h"
#include "bench/create_report.h"
#include "bench/host_view.h"
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

Status ParseNumber(const std::string& text, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error == std::errc() && end == text.data() + text.size() && *number >= 1) return {};
  return Fail(Code::kInvalidArgument, "'" + text + "' is not a number from 1");
}

Result<Options> ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  const std::map<std::string, std::string*> texts = {{"--atolld", &options.atolld},
                                                     {"--busybox", &options.busybox},
                                                     {"--debian", &options.debian},
                                                     {"--output", &options.output},
                                                     {"--only", &options.only}};
  const std::map<std::string, int*> numbers = {
      {"-n", &options.count}, {"--idle", &options.idle}, {"--seconds", &options.seconds}};
  for (size_t i = 0; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) {
      return Fail(Code::kInvalidArgument, arguments[i] + " lacks its value");
    }
    const auto text = texts.find(arguments[i]);
    const auto number = numbers.find(arguments[i]);
    if (text != texts.end()) {
      *text->second = arguments[i + 1];
    } else if (number != numbers.end()) {
      ATOLL_TRY(ParseNumber(arguments[i + 1], number->second));
    } else {
      return Fail(Code::kInvalidArgument, "unknown option " + arguments[i]);
    }
  }
  if (options.atolld.empty() || options.busybox.empty() || options.debian.empty()) {
    return Fail(Code::kInvalidArgument, "--atolld, --busybox and --debian are needed");
  }
  return options;
}

// One line to the terminal before each part; the tables alone are the output.
void Progress(const char* what) {
  static const int64_t start = NowMicros();
  const auto seconds = static_cast<double>(NowMicros() - start) / 1e6;
  std::fprintf(stderr, "bench: %5.1f s  %s\n", seconds, what);
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

Status WriteOutput(const std::string& path, const std::string& text) {
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  return sys::WriteAll(file.get(), text);
}

int Main(const Options& options) {
  const auto results = Measure(options);
  if (!results) {
    std::fprintf(stderr, "bench: %s\n", results.error().message().c_str());
    return 2;
  }
  const std::string text = RenderTables(*results) + RenderPromises(*results);
  std::fputs(text.c_str(), stdout);
  if (!options.output.empty()) {
    const Status written = WriteOutput(options.output, text);
    if (!written) {
      std::fprintf(stderr, "bench: %s\n", written.error().message().c_str());
      return 2;
    }
  }
  const std::vector<std::string> violations = Violations(*results);
  for (const std::string& line : violations) std::fprintf(stderr, "bench: %s\n", line.c_str());
  return violations.empty() ? 0 : 1;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  const auto options = atl::bench::ParseOptions({argv + 1, argv + argc});
  if (!options) {
    std::fprintf(stderr, "bench: %s\n%s", options.error().message().c_str(), atl::bench::kUsage);
    return 2;
  }
  if (::geteuid() != 0) {
    std::fprintf(stderr, "bench: run me as root\n");
    return 2;
  }
  return atl::bench::Main(*options);
}
