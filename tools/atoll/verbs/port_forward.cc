#include "tools/atoll/verbs/port_forward.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/acceptor.h"
#include "runtime/base/thread.h"

namespace atl::cli {
namespace {

constexpr size_t kHighWater = 256 << 10;
constexpr size_t kReadSize = 64 << 10;

// Limits our threads, because a local program may open connections without end.
constexpr int kMaxForwarded = 256;

bool MustWait(int error) {
  return error == EAGAIN || error == EINTR;
}

// Copies bytes in both directions between `local`, a stream socket, and a connection to the
// sandbox's port, until the sandbox's side ends or both have. A slow side holds back the other. The
// directions do not wait for each other. Blocks.
Status Relay(UniqueFd local, Upgraded remote) {
  const int flags = fcntl(local.get(), F_GETFL);
  if (flags < 0 || fcntl(local.get(), F_SETFL, flags | O_NONBLOCK) != 0) return FailSys("fcntl");
  std::string up;
  http::Buffer down;
  std::memcpy(down.Prepare(remote.ahead.size()).data, remote.ahead.data(), remote.ahead.size());
  down.Commit(remote.ahead.size());
  bool local_ended = false, told = false, remote_ended = false;
  while (!remote_ended || !down.empty()) {
    pollfd fds[2] = {{local.get(), 0, 0}, {remote.socket.fd(), 0, 0}};
    if (!local_ended && up.size() < kHighWater) fds[0].events |= POLLIN;
    if (!down.empty()) fds[0].events |= POLLOUT;
    if (!remote_ended && down.size() < kHighWater) fds[1].events |= POLLIN;
    if (!up.empty() && !remote_ended) fds[1].events |= POLLOUT;
    // poll would report the end of a descriptor without events again and again, so it is left out.
    for (pollfd& one : fds) {
      if (one.events == 0) one.fd = -1;
    }
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return FailSys("poll");
    if (fds[0].revents & (POLLIN | POLLHUP | POLLERR) && !local_ended) {
      char bytes[kReadSize];
      const ssize_t n = recv(local.get(), bytes, sizeof bytes, 0);
      if (n > 0) up.append(bytes, static_cast<size_t>(n));
      if (n < 0 && !MustWait(errno)) return {};  // the local client has disconnected
      local_ended = n == 0;
    }
    if (fds[1].revents != 0 && !remote_ended && down.size() < kHighWater) {
      ATOLL_ASSIGN(const bool open, remote.socket.ReadSome(&down));
      remote_ended = !open;
    }
    if (!up.empty() && !remote_ended) {
      ATOLL_ASSIGN(const size_t sent, remote.socket.SendSome(up));
      up.erase(0, sent);
    }
    if (local_ended && up.empty() && !told) {
      told = true;
      remote.socket.FinishSending();
    }
    if (!down.empty()) {
      const ssize_t n = send(local.get(), down.data(), down.size(), MSG_NOSIGNAL);
      if (n < 0 && !MustWait(errno)) return {};
      if (n > 0) down.Consume(static_cast<size_t>(n));
    }
  }
  return {};
}

}  // namespace

Result<LocalPort> ListenHere(int number, int inside) {
  LocalPort port{UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), 0,
                 inside};
  if (!port.listening) return FailSys("socket");
  const int on = 1;
  (void)setsockopt(port.listening.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(number));
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (bind(port.listening.get(), name, size) != 0 || listen(port.listening.get(), SOMAXCONN) != 0 ||
      getsockname(port.listening.get(), name, &size) != 0) {
    return FailSys("listen on 127.0.0.1 port " + std::to_string(number));
  }
  port.number = ntohs(address.sin_port);
  return port;
}

Result<Upgraded> ConnectTo(const Api& api, const ExecdWay& way, int port) {
  return Upgrade(api.server_url(), api.trust(),
                 api.TargetOf(way.base + "/forward/" + std::to_string(port)), "tcp", way.headers);
}

Status ForwardPorts(EventLoop& loop,
                    const std::function<std::shared_ptr<const ForwardTarget>()>& target,
                    const std::vector<LocalPort>& ports,
                    const std::function<void(const Error&)>& failed) {
  // Shared, because threads may outlive this function.
  const auto open = std::make_shared<std::atomic<int>>(0);
  std::vector<std::unique_ptr<Acceptor>> acceptors;
  for (const LocalPort& port : ports) {
    const auto forward = [&failed, &target, open,
                          inside = port.inside](Acceptor::Connection& connection) {
      if (*open >= kMaxForwarded) return;  // closes it, as a full server does
      ++*open;
      // One thread per connection, so that a slow connect or transfer does not delay the others.
      // Shared, because std::function requires copyable captures.
      const auto local = std::make_shared<UniqueFd>(std::move(connection.socket));
      auto thread = StartThread("forward", [to = target(), open, failed, inside, local] {
        auto remote = ConnectTo(to->api, to->way, inside);
        const Status done =
            remote ? Relay(std::move(*local), std::move(*remote)) : Fail(remote.error());
        if (!done) failed(done.error());
        --*open;
      });
      if (thread) return thread->detach();
      --*open;
      failed(thread.error());
    };
    ATOLL_ASSIGN(acceptors.emplace_back(),
                 Acceptor::Start(loop, port.listening.get(), {.name = "forward"}, forward));
  }
  loop.Run();
  return {};
}

}  // namespace atl::cli
