// atoll stats|top
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/json_text.h"
#include "runtime/base/thread.h"
#include "tools/atoll/client/command.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/disk_use.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/columns.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

struct Usage {
  std::string id, name;
  double cpu = 0;
  uint64_t used = 0, limit = 0;
};

Result<Usage> Measure(Api& api, const SandboxEntry& sandbox) {
  ATOLL_ASSIGN(const http::Response response, AskExecd(api, sandbox.id, "/metrics"));
  const auto told = JsonOrNull(response.body);
  if (!told.is_object()) return Fail(Code::kInternal, "the sandbox's metrics are not JSON");
  // The sandbox reports these itself, so their type is checked.
  const auto number = [&told](const char* name) {
    const auto found = told.find(name);
    return found != told.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const auto bytes = [&number](const char* name) {
    return static_cast<uint64_t>(std::clamp(number(name), 0.0, 1e9) * (1 << 20));
  };
  return Usage{sandbox.id, sandbox.name, number("cpu_used_pct"), bytes("mem_used_mib"),
               bytes("mem_total_mib")};
}

// Asks several sandboxes at the same time, because one that rests measures for 0.2 s before it
// answers. Keeps its connections from picture to picture.
class Crowd {
 public:
  explicit Crowd(const Settings& settings) : settings_(settings) {}

  // Returns an answer for each of them, in their order.
  std::vector<Result<Usage>> Measure(Api& api, const std::vector<SandboxEntry>& sandboxes) {
    std::vector<Result<Usage>> answers(sandboxes.size(), Fail(Code::kUnavailable, "not asked"));
    std::atomic<size_t> next = 0;
    const auto ask = [&](Api& by) {
      for (size_t i = next++; i < sandboxes.size(); i = next++) {
        answers[i] = cli::Measure(by, sandboxes[i]);
      }
    };
    std::vector<std::thread> threads;
    for (size_t i = 1; i < std::min(sandboxes.size(), kAskedAtOnce); ++i) {
      if (helpers_.size() < i) {
        auto another = Api::Connect(settings_);
        if (!another) break;
        helpers_.push_back(std::make_unique<Api>(std::move(*another)));
      }
      auto thread = StartThread("stats", [&ask, by = helpers_[i - 1].get()] { ask(*by); });
      if (!thread) break;  // fewer do
      threads.push_back(std::move(*thread));
    }
    ask(api);
    for (std::thread& thread : threads) thread.join();
    return answers;
  }

 private:
  // A fraction of the connections that the server takes of all clients together.
  static constexpr size_t kAskedAtOnce = 16;

  const Settings& settings_;
  std::vector<std::unique_ptr<Api>> helpers_;
};

std::string Percent(double share) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%.1f%%", std::clamp(share, 0.0, 1e6));
  return std::string(text, static_cast<size_t>(size));
}

// Caches disk sizes. A store without project quotas is walked to measure a sandbox, so the sizes of
// one picture serve the next nine too.
class DiskSizes {
 public:
  explicit DiskSizes(Api& api) : api_(api) {}
  void BeginPicture() {
    if (pictures_++ % 10 == 0) known_.clear();
  }
  // Returns nothing if the server cannot measure it.
  const std::optional<DiskUse>& Of(const std::string& id) {
    const auto [at, added] = known_.try_emplace(id);
    if (added) {
      const auto use = MeasureDisk(api_, "/sandboxes/" + PercentEncode(id));
      if (use) at->second = *use;
    }
    return at->second;
  }

 private:
  Api& api_;
  size_t pictures_ = 0;
  std::map<std::string, std::optional<DiskUse>> known_;
};

struct StatsOptions {
  std::vector<std::string> ids;
  ListStyle style;
  bool once = false;
};

// Prints one picture of all running or of the named sandboxes.
Status Stats(Api& api, const Settings& settings, const StatsOptions& options, DiskSizes& sizes,
             Crowd& crowd) {
  sizes.BeginPicture();
  std::vector<std::string> wanted;
  for (const std::string& name : options.ids) {
    ATOLL_ASSIGN(wanted.emplace_back(), ResolveId(api, name));
  }
  ATOLL_ASSIGN(auto all, FetchSandboxes(api, "&state=Running"));
  std::erase_if(all, [&](const SandboxEntry& sandbox) {
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), sandbox.id) == wanted.end();
  });
  Columns columns({"ID", "Name", "CPU", "Memory", "Of", "MemPerc", "Disk"},
                  {{"CPUPerc", "CPU"}, {"MemUsage", "Memory"}});
  json items = json::array();
  for (const auto& usage : crowd.Measure(api, all)) {
    if (!usage && usage.error().code() == Code::kPermissionDenied) return Fail(usage.error());
    if (!usage) continue;  // the sandbox has just ended
    const double share = usage->limit == 0 ? 0
                                           : 100.0 * static_cast<double>(usage->used) /
                                                 static_cast<double>(usage->limit);
    const std::optional<DiskUse>& disk = sizes.Of(usage->id);
    columns.Add({usage->id, usage->name, Percent(usage->cpu), HumanSize(usage->used),
                 HumanSize(usage->limit), Percent(share), disk ? disk->Text() : ""});
    items.push_back({{"id", usage->id},
                     {"cpuPercent", usage->cpu},
                     {"memoryBytes", usage->used},
                     {"memoryLimitBytes", usage->limit}});
    if (disk) items.back()["diskBytes"] = disk->bytes;
  }
  if (settings.json && options.style.format.empty()) {
    std::puts(JsonText({{"items", items}}).c_str());
  } else {
    ATOLL_TRY(columns.Print(options.style));
  }
  std::fflush(stdout);
  return {};
}

Result<int> WatchStats(const Settings& settings, const StatsOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  DiskSizes sizes(api);
  Crowd crowd(settings);
  const bool redraw =
      isatty(STDOUT_FILENO) == 1 && !settings.json && options.style.format != "json";
  while (true) {
    // Clears the screen from the top left.
    if (!options.once && redraw) std::fputs("\033[H\033[J", stdout);
    ATOLL_TRY(Stats(api, settings, options, sizes, crowd));
    if (options.once || std::ferror(stdout) != 0) return 0;
    if (WaitForInterrupt(cancel_fd, 1000)) return 128 + CaughtSignal();
  }
}

Status Top(const Settings& settings, const std::string& given) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(const http::Response response, AskExecd(api, id, "/processes"));
  ATOLL_ASSIGN(const json told, ObjectOf(response));
  Columns columns({"PID", "UID", "State", "Memory", "Name"});
  json items = json::array();
  for (const json& process : told.value("processes", json::array())) {
    const std::string pid = TextOf(process, "pid"), uid = TextOf(process, "uid"),
                      state = TextOf(process, "state"), name = TextOf(process, "name");
    const auto used = process.is_object() ? process.find("memory_bytes") : process.end();
    const bool known = used != process.end() && used->is_number_unsigned();
    const uint64_t bytes = known ? used->get<uint64_t>() : 0;
    columns.Add({pid, uid, state, HumanSize(bytes), name});
    items.push_back(
        {{"pid", pid}, {"uid", uid}, {"state", state}, {"memoryBytes", bytes}, {"name", name}});
  }
  if (!settings.json) return columns.Print("");
  std::puts(JsonText({{"items", items}}).c_str());
  return {};
}

}  // namespace

void AddStatsVerbs(Verb& root, const Settings& settings) {
  const auto watch = std::make_shared<StatsOptions>();
  TakesListStyle(root.Add("stats", "Processor, memory and disk of running sandboxes"),
                 &watch->style, "Only ids", "{{.Name}} {{.CPU}}")
      .Takes(Argument{"ID", kOnlySandboxes, &watch->ids, false})
      .Takes(Option{"--no-stream", "", "Once, instead of every second", &watch->once})
      .Does([watch, &settings] { return WatchStats(settings, *watch); });

  const auto id = std::make_shared<std::string>();
  root.Add("top", "The processes in a sandbox")
      .Takes(Argument{"ID", kOneSandbox, id.get()})
      .Says(
          "Examples:\n  atoll top web\n  atoll top --json web | jq '.items[] | select(.pid != 1)'")
      .Does([id, &settings] { return Top(settings, *id); });
}

}  // namespace atl::cli
