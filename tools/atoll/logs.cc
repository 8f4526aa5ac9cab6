// atoll logs|stats
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/sys.h"
#include "tools/atoll/api.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

using nlohmann::json;

struct LogOptions {
  std::string id;
  std::string since;
  int tail = 0;
  bool follow = false;
};

Result<int> Logs(const Settings& settings, const LogOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, options.id));
  http::Client::Call call;
  call.target = "/sandboxes/" + PercentEncode(id) + "/diagnostics/logs?tail=" +
                std::to_string(options.tail == 0 ? 10000 : options.tail);
  if (!options.since.empty()) call.target += "&since=" + PercentEncode(options.since);
  if (options.follow) call.target += "&follow=true";
  call.cancel_fd = cancel_fd;
  bool writable = true;
  char last = '\n';
  const auto done = api.Stream(std::move(call), [&](std::string_view text) {
    if (!text.empty()) last = text.back();
    writable = sys::WriteAll(STDOUT_FILENO, text).has_value();
    return writable;
  });
  if (CaughtSignal() != 0) return 128 + CaughtSignal();
  if (!writable) return 128 + SIGPIPE;
  if (!done) return Fail(done.error());
  if (last != '\n') std::puts("");
  return 0;
}

struct Usage {
  std::string id, name;
  double cpu = 0;
  uint64_t used = 0, limit = 0;
};

Result<Usage> Measure(Api& api, const SandboxEntry& sandbox) {
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox.id));
  http::Client::Call call;
  call.target = way.base + "/metrics";
  call.headers = way.headers;
  ATOLL_ASSIGN(const http::Response response, api.Send(std::move(call)));
  const auto told = json::parse(response.body, nullptr, false);
  if (!told.is_object()) return Fail(Code::kInternal, "the sandbox's metrics are not JSON");
  // A sandbox tells these of itself.
  const auto bytes = [&told](const char* name) {
    const double mib = std::clamp(told.value(name, 0.0), 0.0, 1e9);
    return static_cast<uint64_t>(mib * (1 << 20));
  };
  return Usage{sandbox.id, sandbox.name, told.value("cpu_used_pct", 0.0), bytes("mem_used_mib"),
               bytes("mem_total_mib")};
}

std::string Percent(double share) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%.1f%%", std::clamp(share, 0.0, 1e6));
  return std::string(text, static_cast<size_t>(size));
}

// One picture of all running sandboxes, or of those that were named.
Status Stats(Api& api, const Settings& settings, const std::vector<std::string>& given) {
  std::vector<std::string> wanted;
  for (const std::string& name : given) {
    ATOLL_ASSIGN(wanted.emplace_back(), ResolveId(api, name));
  }
  ATOLL_ASSIGN(const auto all, FetchSandboxes(api, "&state=Running"));
  Table table({"ID", "NAME", "CPU", "MEMORY", "OF", "MEMORY %"});
  json items = json::array();
  for (const SandboxEntry& sandbox : all) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), sandbox.id) == wanted.end()) {
      continue;
    }
    const auto usage = Measure(api, sandbox);
    if (!usage) continue;  // it has just ended
    const double share = usage->limit == 0 ? 0
                                           : 100.0 * static_cast<double>(usage->used) /
                                                 static_cast<double>(usage->limit);
    table.AddRow({usage->id, usage->name, Percent(usage->cpu), HumanSize(usage->used),
                  HumanSize(usage->limit), Percent(share)});
    items.push_back({{"id", usage->id},
                     {"cpuPercent", usage->cpu},
                     {"memoryBytes", usage->used},
                     {"memoryLimitBytes", usage->limit}});
  }
  if (settings.json) {
    std::puts(json{{"items", items}}.dump().c_str());
  } else {
    std::fputs(table.Text().c_str(), stdout);
  }
  std::fflush(stdout);
  return {};
}

struct StatsOptions {
  std::vector<std::string> ids;
  bool once = false;
};

Result<int> WatchStats(const Settings& settings, const StatsOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  const bool redraw = isatty(STDOUT_FILENO) == 1 && !settings.json;
  while (true) {
    // The screen is cleared from the top left.
    if (!options.once && redraw) std::fputs("\033[H\033[J", stdout);
    ATOLL_TRY(Stats(api, settings, options.ids));
    if (options.once || std::ferror(stdout) != 0) return 0;
    if (WaitForInterrupt(cancel_fd, 1000)) return 128 + CaughtSignal();
  }
}

}  // namespace

void AddWatchVerbs(CLI::App& app, const Settings& settings, int* exit_code) {
  CLI::App* logs = app.add_subcommand("logs", "What a sandbox's entrypoint has printed");
  const auto log = std::make_shared<LogOptions>();
  logs->add_option("ID", log->id, "Sandbox: its id, the start of it, or its name")->required();
  logs->add_flag("-f,--follow", log->follow, "Go on as it prints more, until it ends");
  logs->add_option("-n,--tail", log->tail, "Only the last lines")->check(CLI::Range(1, 10000));
  logs->add_option("--since", log->since, "Only what is no older: 90s, 10m, 2h, 1d");
  logs->callback([log, &settings, exit_code] {
    const auto code = Logs(settings, *log);
    *exit_code = code ? *code : Report(Fail(code.error()));
  });

  CLI::App* stats = app.add_subcommand("stats", "Processor and memory of running sandboxes");
  const auto watch = std::make_shared<StatsOptions>();
  stats->add_option("ID", watch->ids, "Only these: ids, starts of ids, or names");
  stats->add_flag("--no-stream", watch->once, "Once, instead of every second");
  stats->callback([watch, &settings, exit_code] {
    const auto code = WatchStats(settings, *watch);
    *exit_code = code ? *code : Report(Fail(code.error()));
  });
}

}  // namespace atl::cli
