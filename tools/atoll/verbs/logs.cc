// atoll logs|attach
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "runtime/base/duration.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/ending.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/verbs.h"

namespace atl::cli {
namespace {

constexpr Range kTail{1, 10000};

struct LogOptions {
  std::string id;
  std::string since;
  std::string tail = "all";
  bool follow = false;
  bool timestamps = false;
};

// Removes the time from each line, as docker does by default.
class Lines {
 public:
  explicit Lines(bool timestamps) : timestamps_(timestamps) {}

  Status Print(std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (timestamps_ || !in_time_) out.push_back(c);
      if (c == ' ') in_time_ = false;
      if (c == '\n') in_time_ = true;
    }
    if (!text.empty()) ended_ = text.back() == '\n';
    return sys::WriteAll(STDOUT_FILENO, out);
  }
  void Finish() const {
    if (!ended_) std::puts("");
  }

 private:
  const bool timestamps_;
  bool in_time_ = true;
  bool ended_ = true;
};

std::string LogOf(const std::string& id) {
  return "/sandboxes/" + PercentEncode(id) + "/diagnostics/logs?";
}

// Prints the log that a route has, with `follow` in its query until it ends. Returns 128 + signal
// if a signal ended it, else 0.
Result<int> PrintLog(Api& api, const std::string& route, bool timestamps, int cancel_fd) {
  http::Client::Call call;
  call.target = route;
  call.cancel_fd = cancel_fd;
  Status written;
  Lines lines(timestamps);
  const auto done = api.Stream(std::move(call), [&](std::string_view text) {
    written = lines.Print(text);
    return written.has_value();
  });
  if (CaughtSignal() != 0) return 128 + CaughtSignal();
  if (!written && written.error().error_number() == EPIPE) return 128 + SIGPIPE;
  if (!written) return Fail(written.error());
  if (!done) return Fail(done.error());
  lines.Finish();
  return 0;
}

Result<int> Logs(const Settings& settings, const LogOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveIdOrGone(api, options.id));
  if (options.tail != "all") {
    const auto lines = kTail.Read(options.tail);
    if (!lines) return Fail(Error(lines.error()).Wrap("--tail"));
  }
  std::string query = "tail=" + options.tail;
  if (!options.since.empty()) {
    const auto seconds = ParseDuration(options.since);
    if (!seconds) {
      return Wrong("--since " + options.since + ": a duration is expected, such as 90s, 10m or 2h");
    }
    query += "&since=" + std::to_string(*seconds) + "s";
  }
  const std::string follow = options.follow ? "&follow=true" : "";
  auto printed = PrintLog(api, LogOf(id) + query + follow, options.timestamps, cancel_fd);
  if (printed || printed.error().code() != Code::kNotFound) return printed;
  const auto past = PrintLog(api, "/history/" + PercentEncode(id) + "/logs?" + query,
                             options.timestamps, cancel_fd);
  return past ? past : printed;
}

// Prints the output from now on, and then how the sandbox ended.
Result<int> Attach(const Settings& settings, const std::string& given) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, given));
  ATOLL_ASSIGN(const int left, PrintLog(api, LogOf(id) + "since=1s&follow=true", false, cancel_fd));
  if (left != 0) return left;
  ATOLL_ASSIGN(const auto exit, EndOfSeen(api, id));
  return exit ? Tell(api, settings, id, *exit) : 0;
}

}  // namespace

void AddLogVerbs(Verb& root, const Settings& settings) {
  const auto log = std::make_shared<LogOptions>();
  root.Add("logs", "What a sandbox's entrypoint has printed, as text")
      .Takes(Argument{"ID", kOneSandbox, &log->id})
      .Takes(Option{"-f,--follow", "", "Go on as it prints more, until it ends", &log->follow})
      .Takes(Option{"-n,--tail", "LINES",
                    "Only the last lines, up to 10000; all: as many as there are", &log->tail})
      .Takes(Option{"--since", "DURATION", "Only what is no older: 90s, 10m, 2h, 1d", &log->since})
      .Takes(Option{"-t,--timestamps", "", "With the time of each line", &log->timestamps})
      .Says(
          "A sandbox that is gone has its log in the history.\n\n"
          "Examples:\n  atoll logs -f web\n  atoll logs --since 10m -n 100 -t web")
      .Does([log, &settings] { return Logs(settings, *log); });

  const auto id = std::make_shared<std::string>();
  root.Add("attach", "Show a sandbox's output from now on, and end with its exit code")
      .Takes(Argument{"ID", kOneSandbox, id.get()})
      .Says(
          "Ctrl-C leaves it running. To type into one: atoll exec -it ID sh\n\n"
          "Examples:\n"
          "  atoll attach $(atoll run -d alpine sh -c 'sleep 5; echo done')")
      .Does([id, &settings] { return Attach(settings, *id); }, kRunFailed);
}

}  // namespace atl::cli
