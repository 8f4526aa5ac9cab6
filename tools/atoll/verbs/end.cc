// atoll wait|stop|kill
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "runtime/base/signal_word.h"
#include "tools/atoll/client/command.h"
#include "tools/atoll/client/ending.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPollMilliseconds = 100;
constexpr std::chrono::seconds kKilled{10};

// Waits for the end of a sandbox, at most `patience`. Nothing: it has not ended.
Result<std::optional<Exit>> AwaitEnd(Api& api, const std::string& id,
                                     std::optional<std::chrono::seconds> patience, int cancel_fd) {
  const auto deadline = Clock::now() + patience.value_or(std::chrono::seconds(0));
  for (bool seen = false;; seen = true) {
    auto exit = seen ? EndOfSeen(api, id) : EndOf(api, id);
    if (!exit || *exit || (patience && Clock::now() >= deadline)) return exit;
    if (WaitForInterrupt(cancel_fd, kPollMilliseconds)) {
      return Fail(Code::kUnavailable, "interrupted; " + id + " goes on");
    }
  }
}

// Sends a signal to the sandbox's entrypoint. `stops`: the signal is meant to end the sandbox,
// whose end is then no failure. The sandbox may end before the answer arrives.
Status SendSignal(Api& api, const std::string& id, int number, bool stops, int cancel_fd) {
  const auto told = AskExecd(api, id, stops ? "/entrypoint/signal?stop=true" : "/entrypoint/signal",
                             JsonText({{"signal", number}}));
  if (told) return {};
  if (told.error().code() == Code::kInvalidArgument) return Fail(told.error());
  const auto ended = AwaitEnd(api, id, kKilled, cancel_fd);
  return ended && *ended ? Status() : Fail(told.error());
}

Status Stop(const Settings& settings, const Words& ids, int seconds) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  return ForEachSandbox(settings, api, ids, [&](const std::string& id) -> Status {
    ATOLL_ASSIGN(auto ended, EndOf(api, id));
    if (!ended) {
      ATOLL_TRY(SendSignal(api, id, SIGTERM, true, cancel_fd));
      ATOLL_ASSIGN(ended, AwaitEnd(api, id, std::chrono::seconds(seconds), cancel_fd));
    }
    if (!ended) {
      ATOLL_TRY(SendSignal(api, id, SIGKILL, true, cancel_fd));
      ATOLL_ASSIGN(ended, AwaitEnd(api, id, kKilled, cancel_fd));
    }
    if (!ended) {
      return Fail(Code::kDeadlineExceeded, "sandbox " + id + " does not end; type: atoll rm " + id);
    }
    ATOLL_TRY(RemoveIfAsked(api, id));
    if (!settings.json) std::puts(id.c_str());
    return {};
  });
}

Status Kill(const Settings& settings, const Words& ids, const std::string& signal) {
  const int number = SignalNumber(signal);
  if (number == 0) return Fail(Code::kInvalidArgument, "--signal " + signal + ": not a signal");
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  return ForEachSandbox(settings, api, ids, [&](const std::string& id) -> Status {
    ATOLL_ASSIGN(const auto before, EndOf(api, id));
    if (before) return Fail(Code::kFailedPrecondition, "sandbox " + id + " has ended already");
    ATOLL_TRY(SendSignal(api, id, number, number == SIGKILL, cancel_fd));
    if (number == SIGKILL) {
      ATOLL_ASSIGN(const auto ended, AwaitEnd(api, id, kKilled, cancel_fd));
      if (ended) ATOLL_TRY(RemoveIfAsked(api, id));
    }
    if (!settings.json) std::puts(id.c_str());
    return {};
  });
}

// Prints the exit code of each sandbox, as docker does, and the reason if there is one.
Status Wait(const Settings& settings, const Words& ids) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  return ForEachSandbox(settings, api, ids, [&](const std::string& id) -> Status {
    ATOLL_ASSIGN(const auto exit, AwaitEnd(api, id, std::nullopt, cancel_fd));
    if (settings.json) {
      std::puts(JsonText({{"id", id}, {"exitCode", exit->code}, {"reason", exit->reason}}).c_str());
    } else {
      std::printf("%d\n", exit->code);
      if (!exit->reason.empty())
        std::fprintf(stderr, "atoll: %s\n", Printable(exit->reason).c_str());
    }
    return RemoveIfAsked(api, id);
  });
}

}  // namespace

void AddEndingVerbs(Verb& root, const Settings& settings) {
  struct Options {
    Words ids;
    int seconds = 10;
    std::string signal = "KILL";
  };
  const auto options = std::make_shared<Options>();
  const Argument ids = {"ID", kSandboxes, &options->ids};
  root.Add("wait", "Wait until sandboxes have ended, print their exit codes")
      .Takes(ids)
      .Says("Examples:\n  code=$(atoll wait $(atoll run -d alpine false))")
      .Does([options, &settings] { return Wait(settings, options->ids); });
  root.Add("stop",
           "End what sandboxes were started with; logs and exit codes stay, names become free")
      .Takes(ids)
      .Takes(Option{"-t,--timeout,--time", "DURATION",
                    "Until SIGKILL follows SIGTERM, or the image's STOPSIGNAL", &options->seconds,
                    Seconds(0, 3600)})
      .Says("Examples:\n  atoll stop web\n  atoll stop -t 60 db && atoll logs -n 20 db")
      .Does([options, &settings] { return Stop(settings, options->ids, options->seconds); });
  root.Add("kill", "Send a signal to what sandboxes were started with")
      .Takes(ids)
      .Takes(Option{"-s,--signal", "SIGNAL", "By name or number; else KILL, to all processes",
                    &options->signal})
      .Says(
          "Examples:\n  atoll kill web\n  atoll kill -s HUP web      # as its configuration "
          "changed")
      .Does([options, &settings] { return Kill(settings, options->ids, options->signal); });
}

}  // namespace atl::cli
