// atoll replay
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/screen_text.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr double kLongestPause = 3;     // seconds of the recording
constexpr size_t kMaxBytes = 64 << 20;  // limit of a recording; the daemon's have less
constexpr Range kSpeeds{1, 1000};

struct ReplayWords {
  std::string id, recording;
  std::string speed = "1";
  bool list = false, raw = false;
};

// Shows the events of an asciicast as they came.
class Player {
 public:
  Player(int speed, bool waits, int cancel_fd)
      : speed_(speed), waits_(waits), cancel_fd_(cancel_fd) {}

  // Shows the whole recording, or as much as comes before a signal.
  Status Play(std::string_view text) {
    // A line without its end is the last one of a daemon that was killed.
    for (size_t end; (end = text.find('\n')) != std::string_view::npos;
         text.remove_prefix(end + 1)) {
      if (!Show(text.substr(0, end))) break;
    }
    return written_;
  }
  bool shown() const { return shown_; }

 private:
  // Returns false to stop.
  bool Show(std::string_view line) {
    const json event = JsonOrNull(line);
    // The head, input, or a resize.
    if (!event.is_array() || event.size() != 3 || !event[0].is_number() || event[1] != "o" ||
        !event[2].is_string()) {
      return true;
    }
    if (!Wait(event[0].get<double>())) return false;
    shown_ = true;
    written_ = sys::WriteAll(STDOUT_FILENO, screen_.Pass(event[2].get_ref<const std::string&>()));
    return written_.has_value();
  }

  // Returns false if a signal came.
  bool Wait(double at) {
    const double pause = std::clamp(at - at_, 0.0, kLongestPause);
    at_ = std::max(at_, at);
    if (!waits_) return CaughtSignal() == 0;
    // Counted from the event before, so that the time of writing does not add up.
    next_ +=
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pause / speed_));
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(next_ - Clock::now()).count();
    if (left <= 0) return CaughtSignal() == 0;
    pollfd cancelled{cancel_fd_, POLLIN, 0};
    return ::poll(&cancelled, 1, static_cast<int>(left)) == 0;
  }

  const int speed_;
  const bool waits_;
  const int cancel_fd_;
  ScreenText screen_;
  double at_ = 0;
  Clock::time_point next_ = Clock::now();
  Status written_;
  bool shown_ = false;
};

void PrintList(const json& items) {
  Table table({"RECORDING", "STARTED", "SIZE", "BY", "INPUT"});
  for (const json& item : items) {
    const auto bytes = item.find("bytes"), input = item.find("input");
    table.AddRow(
        {Printable(TextOf(item, "id")), Printable(TextOf(item, "startedAt")),
         HumanSize(bytes != item.end() && bytes->is_number_unsigned() ? bytes->get<uint64_t>() : 0),
         Printable(TextOf(item, "actor")), input != item.end() && *input == true ? "yes" : ""});
  }
  std::fputs(table.Text().c_str(), stdout);
}

Result<int> Replay(const Settings& settings, const ReplayWords& words) {
  const auto speed = kSpeeds.Read(words.speed);
  if (!speed) return Fail(Error(speed.error()).Wrap("--speed"));
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveIdOrGone(api, words.id));
  const std::string route = "/recordings/" + PercentEncode(id);
  std::string recording = words.recording;
  if (words.list || recording.empty()) {
    ATOLL_ASSIGN(const json list, Fetch(api, route));
    const json items = list.is_object() ? list.value("items", json::array()) : json::array();
    if (words.list && settings.json) {
      std::puts(JsonText(list).c_str());
      return 0;
    }
    if (words.list) {
      PrintList(items);
      return 0;
    }
    if (!items.is_array() || items.empty()) {
      return Fail(Code::kNotFound, "no terminal of " + words.id + " was recorded");
    }
    recording = TextOf(items.back(), "id");
  }
  // The whole of it before it is shown: the daemon gives up on a client that reads as slowly as
  // people type.
  std::string text;
  http::Client::Call call;
  call.target = route + "/" + PercentEncode(recording);
  call.cancel_fd = cancel_fd;
  const auto done = api.Stream(std::move(call), [&text](std::string_view bytes) {
    text.append(bytes);
    return text.size() <= kMaxBytes;
  });
  if (CaughtSignal() != 0) return 128 + CaughtSignal();
  if (text.size() > kMaxBytes) return Fail(Code::kResourceExhausted, "the recording is too large");
  if (!done) return Fail(done.error());
  const bool at_terminal = ::isatty(STDOUT_FILENO) == 1;
  Player player(static_cast<int>(*speed), at_terminal, cancel_fd);
  Status written = words.raw ? sys::WriteAll(STDOUT_FILENO, text) : player.Play(text);
  if (written && at_terminal && player.shown()) {
    written = sys::WriteAll(STDOUT_FILENO, std::string(ScreenText::Reset()) + "\r\n");
  }
  if (CaughtSignal() != 0) return 128 + CaughtSignal();
  if (!written && written.error().error_number() == EPIPE) return 128 + SIGPIPE;
  if (!written) return Fail(written.error());
  return 0;
}

}  // namespace

void AddReplayVerb(Verb& root, const Settings& settings) {
  const auto words = std::make_shared<ReplayWords>();
  root.Add("replay", "Show a recorded terminal of a sandbox again")
      .Takes(Argument{"ID", kOneSandbox, &words->id})
      .Takes(Option{"--recording", "ID", "That one of --list; else the latest", &words->recording})
      .Takes(Option{"--speed", "FACTOR", "That many times as fast", &words->speed})
      .Takes(Option{"--list", "", "List the recordings of the sandbox", &words->list})
      .Takes(Option{"--raw", "", "Print the recording itself, asciicast v2", &words->raw})
      .Says(
          "Terminals are recorded if audit.record_pty of the daemon says so; whoami tells. Pauses\n"
          "of more than 3 seconds are cut. The output of programs passes as far as it stays on "
          "the\n"
          "screen: nothing of it sets titles, reaches the clipboard or makes the terminal type.\n\n"
          "Examples:\n  atoll replay --speed 4 web\n  atoll replay --raw web > web.cast")
      .Does([words, &settings] { return Replay(settings, *words); });
}

}  // namespace atl::cli
