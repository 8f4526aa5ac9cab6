// The measurements of Atoll. Runs one group of phases and prints lines of JSON. bench/bench starts
// it.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>

#include "bench/host_view.h"
#include "bench/runner.h"

namespace atl::bench {
namespace {

struct Group {
  const char* name;
  Phases (*phases)(const Setting&);
  // The group uses only the programs' API, so that it can measure other releases.
  bool by_api;
};
constexpr Group kGroups[] = {
    {"create", CreatePhases, true},   {"load", LoadPhases, true},
    {"command", CommandPhases, true}, {"api", ApiPhases, true},
    {"network", NetworkPhases, true}, {"dns", DnsPhases, false},
    {"splice", SplicePhases, false},  {"spawner", SpawnerPhases, false},
    {"parts", PartsPhases, false},
};

constexpr char kUsage[] =
    "usage: atoll-bench GROUP --programs DIR --busybox ARCHIVE --debian ARCHIVE\n"
    "                   [--against DIR] [--only SERIES] [--samples COUNT] [--peers 1]\n"
    "       atoll-bench machine\n"
    "bench/bench runs it, with what it needs.\n";

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Reads "--name VALUE" pairs.
Status ReadOptions(const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string*>& table) {
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const auto option = table.find(arguments[i]);
    if (option == table.end() || i + 1 == arguments.size()) {
      return Fail(Code::kInvalidArgument, "unknown, or without a value: " + arguments[i]);
    }
    *option->second = arguments[i + 1];
  }
  return {};
}

Result<int> Number(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0) return number;
  return Fail(Code::kInvalidArgument, "'" + text + "' is not a number");
}

Status Main(const std::string& name, const std::vector<std::string>& arguments) {
  Setting setting;
  Choice choice;
  std::string against, samples = "0", peers = "0";
  ATOLL_TRY(ReadOptions(arguments, {{"--programs", &setting.programs},
                                    {"--busybox", &setting.busybox},
                                    {"--debian", &setting.debian},
                                    {"--against", &against},
                                    {"--only", &choice.only},
                                    {"--samples", &samples},
                                    {"--peers", &peers}}));
  if (setting.programs.empty() || setting.busybox.empty() || setting.debian.empty()) {
    return Fail(Code::kInvalidArgument, "--programs, --busybox and --debian are needed");
  }
  ATOLL_ASSIGN(choice.samples, Number(samples));
  setting.peers = peers != "0";
  if (::geteuid() != 0) return Fail(Code::kPermissionDenied, "run me as root");
  for (const Group& group : kGroups) {
    if (name != group.name) continue;
    std::vector<Side> sides;
    sides.push_back({kOurs, group.phases(setting)});
    if (!against.empty() && group.by_api) {
      Setting other = setting;
      other.programs = against;
      sides.push_back({kAgainst, group.phases(other)});
    }
    RunPhases(name, sides, choice, Say);
    return {};
  }
  return Fail(Code::kInvalidArgument, "no group '" + name + "'");
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  using namespace atl::bench;
  if (argc == 2 && std::strcmp(argv[1], "machine") == 0) {
    Say(MachineJson());
    return 0;
  }
  const atl::Status done = Main(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc});
  if (done) return 0;
  std::fprintf(stderr, "bench: %s\n%s", done.error().message().c_str(), kUsage);
  return 2;
}
