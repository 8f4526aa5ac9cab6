#include "tools/atoll/verbs/publish.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/move_descriptors.h"
#include "tools/atoll/client/ending.h"
#include "tools/atoll/client/json_text.h"

namespace atl::cli {
namespace {

constexpr int64_t kLookEveryUs = 1'000'000;
// Time without an answer of the server after which the sandbox counts as gone.
constexpr int64_t kPatienceUs = int64_t{3600} * 1'000'000;
// The same for answers that refuse the key.
constexpr int64_t kDeniedPatienceUs = 60'000'000;

Result<int> ReadPort(const std::string& given, const std::string& text, int least) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error == std::errc() && end == text.data() + text.size() && port >= least && port < 65536) {
    return port;
  }
  return Wrong("-p " + given +
               ": PORT, HOST:PORT or 127.0.0.1:HOST:PORT is expected, each a number "
               "from 1 to 65535");
}

// Runs in the child. Closes inherited descriptors, because our caller may wait for their end.
// Leaves the terminal's session, so that its signals do not arrive. The ports get descriptor
// numbers from 3.
bool Detach(std::vector<LocalPort>& ports) {
  setsid();
  for (const int number : {SIGINT, SIGHUP}) signal(number, SIG_IGN);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  std::vector<DescriptorMove> moves = {{null, 0}, {null, 1}, {null, 2}};
  int next = STDERR_FILENO + 1;
  for (const LocalPort& port : ports) moves.push_back({port.listening.get(), next++});
  if (!MoveDescriptors(moves)) return false;
  for (size_t i = 0; i < ports.size(); ++i) {
    (void)ports[i].listening.release();
    ports[i].listening.reset(moves[3 + i].to);
  }
  close_range(static_cast<unsigned>(next), ~0U, 0);
  prctl(PR_SET_NAME, "atoll-publish");
  return true;
}

Result<std::shared_ptr<const ForwardTarget>> FindTarget(const Settings& settings,
                                                        const std::string& sandbox_id) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(ExecdWay way, FindExecd(api, sandbox_id));
  return std::make_shared<const ForwardTarget>(std::move(api), std::move(way));
}

// Forwards the ports of one sandbox for as long as it lives.
class Publisher {
 public:
  Publisher(const Settings& settings, std::string sandbox_id,
            std::shared_ptr<const ForwardTarget> target)
      : settings_(settings), sandbox_id_(std::move(sandbox_id)), target_(std::move(target)) {}

  Status Serve(const std::vector<LocalPort>& ports) {
    ATOLL_ASSIGN(loop_, EventLoop::Create());
    LookLater();
    return ForwardPorts(
        *loop_, [this] { return target_; }, ports, [](const Error&) {});
  }

 private:
  void LookLater() {
    loop_->After(kLookEveryUs, [this] { IsOver() ? loop_->Quit() : LookLater(); });
  }

  bool IsOver() {
    // Connects anew, because the key's file may have another key by now.
    auto api = Api::Connect(settings_);
    const auto sandbox = api ? Fetch(*api, "/sandboxes/" + PercentEncode(sandbox_id_))
                             : Result<nlohmann::json>(Fail(api.error()));
    const int64_t now_us = SystemClock().BootMicros();
    if (sandbox) {
      answered_us_ = now_us;
      if (EndIn(*sandbox)) return true;
      // The headers of the way to a sandbox contain the key.
      if (api->key() == target_->api.key()) return false;
      if (auto found = FindTarget(settings_, sandbox_id_)) target_ = *std::move(found);
      return false;
    }
    const Code code = sandbox.error().code();
    if (code == Code::kNotFound) return true;
    // The key's file may get the new key in a moment. A server may be restarting.
    const bool denied = code == Code::kPermissionDenied;
    return now_us - answered_us_ > (denied ? kDeniedPatienceUs : kPatienceUs);
  }

  const Settings& settings_;
  const std::string sandbox_id_;
  std::shared_ptr<const ForwardTarget> target_;
  std::unique_ptr<EventLoop> loop_;
  int64_t answered_us_ = SystemClock().BootMicros();
};

}  // namespace

Result<Published> ReadPublished(const std::string& given) {
  std::string text = given;
  if (text.ends_with("/tcp")) text.resize(text.size() - 4);
  Published published;
  const size_t last = text.rfind(':');
  ATOLL_ASSIGN(published.inside,
               ReadPort(given, last == std::string::npos ? text : text.substr(last + 1), 1));
  if (last == std::string::npos) return published;
  std::string local = text.substr(0, last);
  const size_t first = local.rfind(':');
  if (first != std::string::npos) {
    const std::string address = local.substr(0, first);
    if (address != "127.0.0.1" && address != "localhost") {
      return Wrong("-p " + given +
                   ": ports are opened on 127.0.0.1 alone, for this machine; "
                   "others reach the sandbox through the server: atoll port");
    }
    local = local.substr(first + 1);
    if (local.empty()) local = "0";
  }
  ATOLL_ASSIGN(published.local, ReadPort(given, local, 0));
  return published;
}

Result<std::vector<LocalPort>> ListenFor(const Words& given) {
  std::vector<LocalPort> ports;
  for (const std::string& one : given) {
    ATOLL_ASSIGN(const Published published, ReadPublished(one));
    if (published.local < 0) continue;
    auto port = ListenHere(published.local, published.inside);
    if (!port) return Fail(std::move(port).error().Wrap("-p " + one));
    ports.push_back(*std::move(port));
  }
  return ports;
}

Status Publish(const Settings& settings, const std::string& sandbox_id,
               std::vector<LocalPort> ports) {
  if (ports.empty()) return {};
  ATOLL_ASSIGN(auto target, FindTarget(settings, sandbox_id));
  const pid_t pid = fork();
  if (pid < 0) return FailSys("fork");
  if (pid > 0) return {};
  if (!Detach(ports)) _exit(1);
  const Status served = Publisher(settings, sandbox_id, std::move(target)).Serve(ports);
  _exit(served ? 0 : 1);
}

}  // namespace atl::cli
