#include "runtime/http/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/acceptor.h"
#include "runtime/base/descriptors.h"
#include "runtime/base/log.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/connection.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/server_core.h"

namespace atl::http {
namespace {

constexpr int kBacklog = 1024;
// Connections beyond max_connections that are still answered with 503. Any further ones are closed
// without an answer.
constexpr size_t kMaxRefusing = 64;
// Total time of a connection that uses one of the last descriptors.
constexpr int64_t kBriefUs = 3 * 1000 * 1000;

// An IPv4 or IPv6 address with a port.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  const sockaddr_in& v4() const { return reinterpret_cast<const sockaddr_in&>(storage); }
  const sockaddr_in6& v6() const { return reinterpret_cast<const sockaddr_in6&>(storage); }
};

Result<Address> ParseAddress(const std::string& host, uint16_t port) {
  Address address;
  sockaddr_in v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&address.storage, &v4, address.size = sizeof v4);
    return address;
  }
  // inet_pton(3) would not do: a link-local address has its link ("fe80::1%eth0").
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_family = AF_INET6;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    return Fail(Code::kInvalidArgument, "not a literal IPv4 or IPv6 address");
  }
  std::memcpy(&address.storage, found->ai_addr, address.size = found->ai_addrlen);
  reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = htons(port);
  freeaddrinfo(found);
  return address;
}

Result<UniqueFd> OpenListener(const Address& address, const std::string& where) {
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) return FailSys("socket");
  const int on = 1;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return FailSys("SO_REUSEADDR");
  }
  if (bind(fd.get(), address.get(), address.size) != 0 || listen(fd.get(), kBacklog) != 0) {
    return FailSys(where);
  }
  return fd;
}

void TuneSocket(int fd) {
  const auto set = [fd](int level, int name, int value) {
    (void)setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A stream may be silent for hours. Keepalive finds clients that have vanished.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

std::string PeerName(const Address& peer) {
  char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
  char port[6];
  if (getnameinfo(peer.get(), peer.size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?";
  }
  const bool v6 = peer.storage.ss_family == AF_INET6;
  return (v6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + port;
}

bool IsLocal(const Address& peer) {
  const auto loopback = [](const void* v4) { return *static_cast<const uint8_t*>(v4) == 127; };
  if (peer.storage.ss_family == AF_INET) return loopback(&peer.v4().sin_addr);
  const in6_addr& v6 = peer.v6().sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && loopback(&v6.s6_addr[12]));
}

class ServerImpl final : public Server {
 public:
  ServerImpl(PooledLoop& loop, const ServerConfig& config, Handler handler)
      : state_(std::make_shared<State>(loop, config, std::move(handler))) {}
  ServerImpl(const ServerImpl&) = delete;
  ServerImpl& operator=(const ServerImpl&) = delete;
  ~ServerImpl() override {
    state_->core->on_idle = nullptr;
    CloseListener();
    AbortAll();
  }

  Status Listen() {
    const ServerConfig& config = state_->core->config;
    const std::string where = "listen on " + config.host + " port " + std::to_string(config.port);
    auto parsed = ParseAddress(config.host, config.port);
    if (!parsed) return Fail(std::move(parsed).error().Wrap(where));
    UniqueFd listener(config.listen_fd);
    if (!listener) {
      ATOLL_ASSIGN(listener, OpenListener(*parsed, where));
    }
    Address bound;
    const int flags = fcntl(listener.get(), F_GETFL);
    if (flags < 0 || fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0 ||
        getsockname(listener.get(), bound.get(), &bound.size) != 0) {
      return FailSys(where);
    }
    port_ = ntohs(bound.storage.ss_family == AF_INET6 ? bound.v6().sin6_port : bound.v4().sin_port);
    state_->listener = std::move(listener);
    ATOLL_ASSIGN(state_->acceptor,
                 Acceptor::Start(state_->core->loop.events(), state_->listener.get(),
                                 {.name = where, .may_take_reserve = true},
                                 [state = state_.get()](Acceptor::Connection& connection) {
                                   Welcome(*state, std::move(connection.socket),
                                           {connection.peer, connection.peer_size});
                                 }));
    return {};
  }

  uint16_t port() const override { return port_; }
  void SetTls(std::shared_ptr<const TlsContext> tls) override {
    state_->core->tls = std::move(tls);
  }

  void EndExchanges(const std::function<bool(const std::string&)>& ended) override {
    ForEachConnection(*state_->core, [&ended](Connection& connection) {
      if (ended(connection.authority())) connection.Revoke();
    });
  }

  size_t open_streams() const override {
    const auto& connections = state_->core->connections;
    return static_cast<size_t>(
        std::count_if(connections.begin(), connections.end(),
                      [](const Connection* connection) { return connection->streams(); }));
  }

  void Stop(int grace_ms, std::function<void()> done) override {
    CloseListener();
    ServerCore& core = *state_->core;
    core.stopping = true;
    core.upstreams.Clear();
    ForEachConnection(core, [](Connection& connection) { connection.FinishSoon(); });
    if (core.connections.empty()) return core.loop.Post(std::move(done));
    state_->grace = core.loop.After(int64_t{grace_ms} * 1000,
                                    [state = state_] { AbortConnections(*state->core); });
    core.on_idle = [state = state_.get(), done = std::move(done)] {
      PooledLoop& loop = state->core->loop;
      loop.Post(done);
      loop.Cancel(state->grace);
    };
  }

 private:
  // Outlives the Server while it is being stopped.
  struct State {
    State(PooledLoop& loop, const ServerConfig& config, Handler handler)
        : core(std::make_shared<ServerCore>(loop, config, std::move(handler))) {}
    std::shared_ptr<ServerCore> core;
    UniqueFd listener;
    std::unique_ptr<Acceptor> acceptor;
    Loop::Id grace = 0;
  };

  static void Welcome(State& state, UniqueFd fd, const Address& peer) {
    const std::shared_ptr<ServerCore>& core = state.core;
    const size_t limit = core->config.max_connections;
    while (core->connections.size() >= limit && MakeRoom(*core)) continue;
    const size_t open = core->connections.size();
    if (open >= limit + kMaxRefusing) return;
    TuneSocket(fd.get());
    const bool brief = IsSpare(fd.get());
    auto stream = Stream::Create(core->loop.events(), std::move(fd));
    if (!stream) return;  // epoll's limit of watches: the connection cannot be served
    auto connection = std::make_shared<Connection>(core, std::move(*stream));
    // A TLS connection beyond the limit is closed without an answer, because a handshake is
    // expensive.
    if (open >= limit && core->tls) return;
    if (open >= limit) return connection->Refuse();
    if (brief) Hurry(state, connection);
    connection->Start(PeerName(peer), IsLocal(peer));
  }

  // Closes the connection that has waited longest for its client: for a request, or for the rest of
  // a head. Returns false if all have a request in work. So a client with many connections at rest
  // keeps nobody out.
  static bool MakeRoom(ServerCore& core) {
    for (Connection* const longest : core.waiting) {
      if (!longest->AtRest()) continue;
      const auto held = longest->shared_from_this();
      held->Abort(false);
      return true;
    }
    return false;
  }

  // The connection uses one of the last descriptors: it is served briefly, so that the next client
  // can be served too.
  static void Hurry(State& state, const std::shared_ptr<Connection>& connection) {
    connection->CloseAfterAnswer();
    state.core->loop.After(kBriefUs, [weak = connection->weak_from_this()] {
      if (const auto late = weak.lock()) late->Abort(false);
    });
  }

  // `visit` may close the connection that it gets, and thereby others.
  template <typename F>
  static void ForEachConnection(ServerCore& core, F visit) {
    std::vector<std::shared_ptr<Connection>> held;
    for (Connection* connection : core.connections) {
      if (auto strong = connection->weak_from_this().lock()) held.push_back(std::move(strong));
    }
    for (const auto& connection : held) visit(*connection);
  }

  static void AbortConnections(ServerCore& core) {
    ForEachConnection(core, [](Connection& connection) { connection.Abort(false); });
  }

  void CloseListener() {
    state_->acceptor.reset();
    state_->listener.reset();
  }

  void AbortAll() {
    state_->core->loop.Cancel(state_->grace);
    state_->core->stopping = true;
    state_->core->upstreams.Clear();
    AbortConnections(*state_->core);
  }

  std::shared_ptr<State> state_;
  uint16_t port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Listen(PooledLoop& loop, const ServerConfig& config,
                                               Handler handler) {
  auto server = std::make_unique<ServerImpl>(loop, config, std::move(handler));
  ATOLL_TRY(server->Listen());
  return std::unique_ptr<Server>(std::move(server));
}

Result<std::function<void()>> ServeConnection(PooledLoop& loop, const ServerConfig& config,
                                              Handler handler, UniqueFd socket,
                                              std::function<void()> closed) {
  TuneSocket(socket.get());
  ATOLL_ASSIGN(auto stream, Stream::Create(loop.events(), std::move(socket)));
  auto core = std::make_shared<ServerCore>(loop, config, std::move(handler));
  core->on_idle = [&loop, closed = std::move(closed)] { loop.Post(closed); };
  const auto connection = std::make_shared<Connection>(core, std::move(stream));
  connection->Start({}, false);
  return [weak = std::weak_ptr(connection)] {
    if (const auto open = weak.lock()) open->FinishSoon();
  };
}

}  // namespace atl::http
