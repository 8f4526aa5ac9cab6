// atoll events
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/guard.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/report.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr int kLookEveryMilliseconds = 500;

struct EventOptions {
  Words ids;
  bool follow = false;
};

// Prints events, which are lines "TIME SCOPE TYPE TEXT".
class EventPrinter {
 public:
  EventPrinter(const Settings& settings, Api& api) : json_(settings.json), api_(api) {}

  // Prints the past events of a sandbox, or those that the history has of it. kNotFound: neither.
  Status LookAnywhere(const std::string& id) {
    Status looked = Look(id);
    if (looked || looked.error().code() != Code::kNotFound) return looked;
    const auto past = Fetch(api_, "/history/" + PercentEncode(id));
    if (!past) return looked;
    for (const json& line : past->value("events", json::array())) {
      if (line.is_string()) Print(id, Printable(line.get<std::string>()));
    }
    return {};
  }

  // Prints the past events of a sandbox. kNotFound: it does not exist, or no longer.
  Status Look(const std::string& id) {
    ATOLL_ASSIGN(const json told,
                 Fetch(api_, "/sandboxes/" + PercentEncode(id) + "/diagnostics/events?scope=all"));
    Words all;
    std::istringstream lines(TextOf(told, "content"));
    for (std::string line; std::getline(lines, line);) all.push_back(Printable(line));
    for (const std::string& line : all) {
      Print(id, line);
      looked_.insert(id + " " + line);
    }
    return {};
  }

  // Prints a new event, unless Look has already printed it.
  void Told(const std::string& id, const std::string& line) {
    if (looked_.erase(id + " " + line) == 0) Print(id, line);
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
  std::set<std::string> looked_;  // "ID LINE" of each event that Look printed
};

Result<Words> AllIds(Api& api) {
  ATOLL_ASSIGN(const auto all, FetchSandboxes(api, ""));
  Words ids;
  for (const SandboxEntry& sandbox : all) ids.push_back(sandbox.id);
  return ids;
}

Result<int64_t> NumberOfLast(const json& events) {
  const auto last = events.find("last");
  if (last != events.end() && last->is_number_integer()) return last->get<int64_t>();
  return Fail(Code::kInternal, "the server's events have no number");
}

// Follows the events of the named sandboxes until these are deleted, or of all sandboxes. Events
// are fetched by number, so an event can be read after its sandbox is gone.
Result<int> Follow(Api& api, EventPrinter& printer, Words named, int cancel_fd) {
  const bool all = named.empty();
  ATOLL_ASSIGN(const json now, Fetch(api, "/events"));
  ATOLL_ASSIGN(int64_t last, NumberOfLast(now));
  Words there = named;
  if (all) {
    ATOLL_ASSIGN(there, AllIds(api));
  }
  for (const std::string& id : there) {
    const Status looked = printer.Look(id);
    if (looked) continue;
    if (looked.error().code() != Code::kNotFound) return Fail(looked.error());
    std::erase(named, id);
  }
  for (;;) {
    ATOLL_ASSIGN(const json told, Fetch(api, "/events?after=" + std::to_string(last)));
    ATOLL_ASSIGN(last, NumberOfLast(told));
    if (told.value("missed", false)) {
      std::fputs("atoll: some events were missed: the server keeps the latest only\n", stderr);
    }
    const json items = told.value("items", json::array());
    for (const json& item : items) {
      const std::string id = Printable(TextOf(item, "sandboxId"));
      if (!all && std::find(named.begin(), named.end(), id) == named.end()) continue;
      const std::string line = Printable(TextOf(item, "event"));
      printer.Told(id, line);
      if (line.find(" lifecycle Normal Deleted ") != std::string::npos) std::erase(named, id);
    }
    std::fflush(stdout);
    if (std::ferror(stdout) != 0 || (!all && named.empty())) return 0;
    // More events may follow at once.
    if (!items.empty()) continue;
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
    Status last;
    for (const std::string& given : ids) {
      const auto id = ResolveIdOrGone(api, given);
      Status done = id ? printer.LookAnywhere(*id) : Status(Fail(id.error()));
      if (done) continue;
      if (!last) Report(settings, last.error());
      last = std::move(done);
    }
    ATOLL_TRY(std::move(last));
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
