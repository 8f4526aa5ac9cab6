// atoll events
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/json_text.h"
#include "tools/atoll/guard.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/json_text.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/text.h"
#include "tools/atoll/verbs.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr int kLookEveryMilliseconds = 500;

struct EventOptions {
  Words ids;
  bool follow = false;
};

// Events are lines "TIME SCOPE TYPE TEXT".
class EventPrinter {
 public:
  EventPrinter(const Settings& settings, Api& api) : json_(settings.json), api_(api) {}

  // What has happened since the last look. kNotFound: there is no such sandbox (any more).
  Status Look(const std::string& id) {
    ATOLL_ASSIGN(const json told,
                 Fetch(api_, "/sandboxes/" + PercentEncode(id) + "/diagnostics/events?scope=all"));
    Words all;
    std::istringstream lines(TextOf(told, "content"));
    for (std::string line; std::getline(lines, line);) all.push_back(Printable(line));
    // Not by their number: the server keeps the latest only.
    std::string& last = last_[id];
    const auto seen = std::find(all.rbegin(), all.rend(), last);
    for (auto line = seen.base() == all.begin() || last.empty() ? all.begin() : seen.base();
         line != all.end(); ++line) {
      Print(id, *line);
    }
    if (!all.empty()) last = all.back();
    return {};
  }

  // Sandboxes that were looked at, and are not among `left`, are gone.
  void Forget(const Words& left) {
    std::erase_if(last_, [&](const auto& one) {
      if (std::find(left.begin(), left.end(), one.first) != left.end()) return false;
      Print(one.first, TimeIn(0) + " lifecycle Normal Deleted");
      return true;
    });
  }

 private:
  void Print(const std::string& id, const std::string& line) const {
    if (!json_) {
      std::printf("%s %s\n", id.c_str(), line.c_str());
      return;
    }
    std::istringstream words(line);
    std::string time, scope, type, text;
    words >> time >> scope >> type;
    std::getline(words >> std::ws, text);
    std::puts(
        JsonText({{"id", id}, {"time", time}, {"scope", scope}, {"type", type}, {"text", text}})
            .c_str());
  }

  const bool json_;
  Api& api_;
  std::map<std::string, std::string> last_;  // by sandbox: the line that was printed last
};

Result<Words> AllIds(Api& api) {
  ATOLL_ASSIGN(const auto all, FetchSandboxes(api, ""));
  Words ids;
  for (const SandboxEntry& sandbox : all) ids.push_back(sandbox.id);
  return ids;
}

// Of those that were named, or of all that there are at each look.
Result<int> Follow(Api& api, EventPrinter& printer, const Words& named, int cancel_fd) {
  for (;;) {
    ATOLL_ASSIGN(const Words there, AllIds(api));
    Words watched;
    for (const std::string& id : there) {
      if (!named.empty() && std::find(named.begin(), named.end(), id) == named.end()) continue;
      const Status looked = printer.Look(id);
      if (looked) watched.push_back(id);
      if (!looked && looked.error().code() != Code::kNotFound) return Fail(looked.error());
    }
    printer.Forget(watched);
    std::fflush(stdout);
    if (std::ferror(stdout) != 0 || (!named.empty() && watched.empty())) return 0;
    if (WaitForInterrupt(cancel_fd, kLookEveryMilliseconds)) return 128 + CaughtSignal();
  }
}

Result<int> Events(const Settings& settings, const EventOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  EventPrinter printer(settings, api);
  if (!options.follow) {
    Words ids = options.ids;
    if (ids.empty()) {
      ATOLL_ASSIGN(ids, AllIds(api));
    }
    ATOLL_TRY(ForEachSandbox(settings, api, ids,
                             [&](const std::string& id) { return printer.Look(id); }));
    return 0;
  }
  Words named;
  for (const std::string& given : options.ids) {
    ATOLL_ASSIGN(named.emplace_back(), ResolveId(api, given));
  }
  return Follow(api, printer, named, cancel_fd);
}

}  // namespace

void AddEventsVerb(Verb& root, const Settings& settings) {
  const auto options = std::make_shared<EventOptions>();
  root.Add("events", "What has happened to sandboxes")
      .Takes(Argument{"ID", kOnlySandboxes, &options->ids, false})
      .Takes(Option{"-f,--follow", "", "Go on as more happens, until those named are deleted",
                    &options->follow})
      .Says(
          "Examples:\n"
          "  atoll events web              # created, paused, out of memory, ended: each with its "
          "time\n"
          "  atoll events -f --json | jq 'select(.type == \"Warning\")'")
      .Does([options, &settings] { return Events(settings, *options); });
}

}  // namespace atl::cli
