#include "tools/atoll/verbs/publish.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/base/event_loop.h"
#include "runtime/base/move_descriptors.h"
#include "tools/atoll/client/ending.h"

namespace atl::cli {
namespace {

constexpr int64_t kLookEveryUs = 250'000;

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

// Returns true if the sandbox has ended or is gone, or if our key is valid no more. A server that
// does not answer may be restarting, so that is false.
bool HasEnded(const Settings& settings, const std::string& sandbox_id) {
  auto api = Api::Connect(settings);
  if (!api) return false;
  const auto end = EndOf(*api, sandbox_id);
  if (end) return end->has_value();
  const Code code = end.error().code();
  return code == Code::kNotFound || code == Code::kPermissionDenied;
}

Status Serve(const Settings& settings, const std::string& sandbox_id,
             const std::vector<LocalPort>& ports, int seconds) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox_id));
  ATOLL_ASSIGN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  loop->After(int64_t{seconds} * 1'000'000, [&loop] { loop->Quit(); });
  const std::function<void()> look = [&] {
    if (HasEnded(settings, sandbox_id)) return loop->Quit();
    loop->After(kLookEveryUs, look);
  };
  loop->After(kLookEveryUs, look);
  return ForwardPorts(*loop, std::make_shared<const Api>(std::move(api)), way, ports,
                      [](const Error&) {});
}

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
               std::vector<LocalPort> ports, int seconds) {
  if (ports.empty()) return {};
  const pid_t pid = fork();
  if (pid < 0) return FailSys("fork");
  if (pid > 0) return {};
  if (!Detach(ports)) _exit(1);
  const Status served = Serve(settings, sandbox_id, ports, seconds);
  _exit(served ? 0 : 1);
}

}  // namespace atl::cli
