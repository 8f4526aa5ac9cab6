#include "tools/atoll/client/exit.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "runtime/base/signal_word.h"
#include "runtime/http/ascii.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/report.h"
#include "tools/atoll/words/grammar.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

constexpr std::string_view kSignal = "signal: ";
// execd's words about a limit that was hit, the name of the limit, and the option that raises it.
struct LimitWords {
  const char *said, *limit, *option;
};
constexpr LimitWords kLimits[] = {{"out of memory", "memory", "-m"},
                                  {"limit of processes", "pids", "--pids"}};

int NumberOf(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

// Returns the number of a signal from execd's word.
int SignalOf(std::string_view word) {
  for (const SignalWord& known : kSignalWords) {
    if (known.word == word) return known.number;
  }
  return word.starts_with("signal ") ? NumberOf(word.substr(7)) : 0;
}

bool IsRunning(const nlohmann::json& sandbox) {
  return TextOf(sandbox.value("status", nlohmann::json::object()), "state") == "Running";
}

}  // namespace

Exit ExitOf(int code, std::string_view told) {
  // Example: " (timeout) (out of memory: …)".
  const size_t end = std::min(told.find(" ("), told.size());
  std::string details(told.substr(end));
  int signal = 0;
  if (told.starts_with(kSignal))
    signal = SignalOf(told.substr(kSignal.size(), end - kSignal.size()));
  if (signal > 0 && signal < NSIG)
    return {128 + signal, "killed by " + SignalName(signal) + details};
  // An execd that gives no details.
  if (code < 0) return {255, "killed"};
  return {code & 0xff, details.empty() ? "" : "ended with code " + std::to_string(code) + details};
}

std::optional<Exit> ExitOfUnstarted(const std::string& told) {
  if (!told.starts_with("exec ")) return std::nullopt;
  const auto is = [&told](int error) { return told.ends_with(strerrordesc_np(error)); };
  if (is(ENOENT)) return Exit{127, "not found: " + told};
  if (is(EACCES) || is(ENOEXEC)) return Exit{126, "is no program: " + told};
  return std::nullopt;
}

Exit ExitOfUnwritten(const Error& why) {
  if (why.error_number() == EPIPE) return {128 + SIGPIPE, {}};
  return {kRunFailed, "has an output that cannot be written here: " + why.message()};
}

std::string SignalName(int number) {
  const char* const name = sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

Error WhyGone(Api& api, const std::string& sandbox_id) {
  // The server may take a moment to record the end. Until then its message describes the earlier
  // state.
  constexpr int kLooks = 50, kRestMillis = 20;
  auto sandbox = Fetch(api, "/sandboxes/" + PercentEncode(sandbox_id));
  for (int i = 0; i < kLooks && sandbox && IsRunning(*sandbox); ++i) {
    ::poll(nullptr, 0, kRestMillis);
    sandbox = Fetch(api, "/sandboxes/" + PercentEncode(sandbox_id));
  }
  if (!sandbox && sandbox.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound,
                 "sandbox " + sandbox_id + " has expired or was deleted before the command ended");
  }
  if (!sandbox) {
    return std::move(sandbox).error().Wrap("the connection broke before the command ended");
  }
  if (IsRunning(*sandbox)) {
    return Error(Code::kUnavailable, "the connection broke before the command ended; sandbox " +
                                         sandbox_id + " runs on");
  }
  const std::string text = "the sandbox ended before the command did";
  const std::string message = TextOf(sandbox->value("status", nlohmann::json::object()), "message");
  return Error(Code::kUnavailable, message.empty() ? text : text + ": " + message);
}

int Tell(Api& api, const Settings& settings, const std::string& sandbox_id, const Exit& exit) {
  std::string reason = exit.reason;
  for (const LimitWords& words : kLimits) {
    if (reason.find(words.said) == std::string::npos) continue;
    const auto limits =
        Fetch(api, "/sandboxes/" + PercentEncode(sandbox_id) + "/diagnostics/inspect?format=json");
    const std::string limit =
        limits ? TextOf(limits->value("resourceLimits", nlohmann::json::object()), words.limit)
               : "";
    if (limit.empty()) continue;
    reason.append("; the limit is ").append(limit).append(", more is asked for with run ");
    reason.append(words.option);
  }
  if (settings.json) {
    nlohmann::json told = {{"exitCode", exit.code}};
    if (!reason.empty()) told["reason"] = Printable(reason);
    std::fprintf(stderr, "%s\n", JsonText(told).c_str());
  } else if (!reason.empty()) {
    std::fprintf(stderr, "%scommand %s\n", ErrorMark(), Printable(reason).c_str());
  }
  return exit.code;
}

}  // namespace atl::cli
