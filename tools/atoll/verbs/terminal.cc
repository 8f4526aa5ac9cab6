#include "tools/atoll/verbs/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/base/cleanup.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/client/web_socket.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

// Channels of execd's binary messages.
constexpr char kStdin = 0, kStdout = 1, kStderr = 2, kReplay = 3;
constexpr size_t kReplayHead = 9;

// Holds our own terminal in raw mode.
class RawMode {
 public:
  RawMode() : active_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!active_) return;
    termios raw = before_;
    cfmakeraw(&raw);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;
  ~RawMode() {
    if (active_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

 private:
  termios before_{};
  const bool active_;
};

Result<UniqueFd> WatchSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGWINCH, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return FailSys("sigprocmask");
  UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC));
  if (!fd) return FailSys("signalfd");
  return fd;
}

class Session {
 public:
  Session(WebSocket socket, UniqueFd signals, bool terminal)
      : socket_(std::move(socket)), signals_(std::move(signals)), terminal_(terminal) {}

  // Returns how the command ended. Nothing: the sandbox went away.
  Result<std::optional<Exit>> Run() {
    if (terminal_) ATOLL_TRY(SendSize());
    // Does not wait the first time: poll does not report bytes that came together with the
    // handshake.
    int patience_ms = 0;
    while (!exit_) {
      // Reads input only if the socket can take it. A blocking send would stop the output, and a
      // command that cannot write its output may stop reading its input.
      const short room = input_waits_ ? POLLOUT : 0;
      pollfd wanted[] = {{socket_.fd(), static_cast<short>(POLLIN | room), 0},
                         {signals_.get(), POLLIN, 0},
                         {reading_ && !input_waits_ ? STDIN_FILENO : -1, POLLIN, 0}};
      const int ready = poll(wanted, std::size(wanted), patience_ms);
      if (ready < 0) {
        if (errno == EINTR) continue;
        return FailSys("poll");
      }
      const bool first = std::exchange(patience_ms, -1) == 0;
      if (wanted[1].revents != 0) ATOLL_TRY(OnSignal());
      if (wanted[2].revents != 0) input_waits_ = true;
      if ((wanted[0].revents & POLLOUT) != 0) ATOLL_TRY(OnInput());
      if ((wanted[0].revents & ~POLLOUT) == 0 && !first) continue;
      const auto more = socket_.Receive([this](bool text, std::string_view message) {
        text ? OnText(message) : OnOutput(message);
      });
      if (!failure_.empty()) return Unstarted(failure_);
      if (!more && more.error().code() != Code::kUnavailable) return Fail(more.error());
      if ((!more || !*more) && !exit_) return std::nullopt;
    }
    return exit_;
  }

 private:
  Status SendSize() {
    winsize size{};
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
      return {};
    }
    return socket_.SendText(
        JsonText({{"type", "resize"}, {"cols", size.ws_col}, {"rows", size.ws_row}}));
  }

  Status OnSignal() {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) != sizeof info) return FailSys("read signalfd");
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGWINCH) return terminal_ ? SendSize() : Status{};
    // Deleting the terminal ends the command.
    exit_ = Exit{128 + number, {}};
    return {};
  }

  Status OnInput() {
    input_waits_ = false;
    char bytes[16384];
    bytes[0] = kStdin;
    const ssize_t n = read(STDIN_FILENO, bytes + 1, sizeof bytes - 1);
    if (n < 0 && errno == EINTR) return {};
    if (n <= 0) {
      reading_ = false;
      return socket_.SendText(R"({"type":"eof"})");
    }
    return socket_.SendBinary({bytes, static_cast<size_t>(n) + 1});
  }

  void OnOutput(std::string_view message) {
    if (message.empty()) return;
    const char channel = message.front();
    const size_t head = channel == kReplay ? kReplayHead : 1;
    if (message.size() < head) return;
    const bool is_error = channel == kStderr;
    if (!is_error && channel != kStdout && channel != kReplay) return;
    const Status written =
        sys::WriteAll(is_error ? STDERR_FILENO : STDOUT_FILENO, message.substr(head));
    if (!written) exit_ = ExitOfUnwritten(written.error());
  }

  void OnText(std::string_view message) {
    const auto told = JsonOrNull(message);
    if (!told.is_object()) return;
    const std::string type = told.value("type", "");
    if (type == "exit") {
      exit_ = ExitOf(told.value("exit_code", 0), told.value("error", ""));
    } else if (type == "error" && told.value("code", "") != "STDIN_WRITE_FAILED") {
      // Ignored: the command need not read its input to the end.
      failure_ = Printable(told.value("error", "the terminal failed"));
    }
  }

  WebSocket socket_;
  UniqueFd signals_;
  const bool terminal_;
  bool reading_ = true;
  bool input_waits_ = false;  // unread input
  std::optional<Exit> exit_;
  std::string failure_;
};

}  // namespace

Result<Exit> RunInTerminal(Api& api, const std::string& sandbox_id, const Command& command,
                           bool terminal) {
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox_id));
  http::Client::Call call;
  call.method = "POST";
  call.target = way.base + "/pty";
  call.headers = way.headers;
  call.headers.Set("Content-Type", "application/json");
  call.body = JsonText(CommandBody(command));
  ATOLL_ASSIGN(const http::Response created, api.Send(std::move(call)));
  const auto session = JsonOrNull(created.body);
  const std::string id = session.is_object() ? session.value("session_id", "") : "";
  if (id.empty()) return Fail(Code::kInternal, "the sandbox's answer names no terminal");
  const std::string path = way.base + "/pty/" + PercentEncode(id);

  ATOLL_ASSIGN(UniqueFd signals, WatchSignals());
  const Cleanup remove([&] {
    http::Client::Call end;
    end.method = "DELETE";
    end.target = path;
    end.headers = way.headers;
    // Ignored: the terminal may have gone with its sandbox.
    [[maybe_unused]] const auto ignored = api.Send(std::move(end));
  });
  ATOLL_ASSIGN(
      WebSocket socket,
      WebSocket::Connect(api.server_url(), api.trust(),
                         api.TargetOf(path + (terminal ? "/ws" : "/ws?pty=0")), way.headers));
  std::optional<RawMode> raw;
  if (terminal) raw.emplace();
  ATOLL_ASSIGN(const auto exit, Session(std::move(socket), std::move(signals), terminal).Run());
  raw.reset();
  if (!exit) return Fail(WhyGone(api, sandbox_id));
  return *exit;
}

}  // namespace atl::cli
