#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <utility>
#include <vector>

#include "runtime/base/descriptors.h"
#include "runtime/base/log.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/asio_loop.h"
#include "runtime/http/connection.h"
#include "runtime/http/server_core.h"

namespace atl::http {
namespace {

using Tcp = asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<Tcp, Executor>;

constexpr int kBacklog = 1024;
// Past max_connections this many more are told so; beyond that they are closed without a word.
constexpr size_t kMaxRefusing = 64;
// Of a connection with one of the last descriptors, all in all.
constexpr int64_t kBriefUs = 3 * 1000 * 1000;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
// Taken from the queue in one go; then others have their turn.
constexpr int kAcceptBatch = 32;

// Not Asio's open and accept: theirs leave close-on-exec to be set later, or never.
Result<UniqueFd> OpenListener(const Tcp::endpoint& endpoint, const std::string& where) {
  UniqueFd fd(socket(endpoint.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) return FailSys("socket");
  const int on = 1;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return FailSys("SO_REUSEADDR");
  }
  if (bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return FailSys(where);
  }
  return fd;
}

void TuneSocket(int fd) {
  const auto set = [fd](int level, int name, int value) {
    (void)setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A stream may be silent for hours: probes find the clients that vanished without a word.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

std::string PeerName(const Tcp::endpoint& peer) {
  const std::string address = peer.address().to_string();
  const std::string port = ":" + std::to_string(peer.port());
  return peer.address().is_v6() ? "[" + address + "]" + port : address + port;
}

bool IsLocal(const Tcp::endpoint& peer) {
  const asio::ip::address address = peer.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.is_loopback();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
}

class ServerImpl final : public Server {
 public:
  ServerImpl(AsioLoopImpl& loop, const ServerConfig& config, Handler handler)
      : state_(std::make_shared<State>(loop, config, std::move(handler))) {}
  ServerImpl(const ServerImpl&) = delete;
  ServerImpl& operator=(const ServerImpl&) = delete;
  ~ServerImpl() override {
    state_->core->on_idle = nullptr;
    CloseAcceptor();
    AbortAll();
  }

  Status Listen() {
    const ServerConfig& config = state_->core->config;
    const std::string where = "listen on " + config.host + " port " + std::to_string(config.port);
    ErrorCode error;
    const auto address = asio::ip::make_address(config.host, error);
    if (error) {
      return Fail(Code::kInvalidArgument, where + ": not a literal IPv4 or IPv6 address");
    }
    const Tcp::endpoint endpoint(address, config.port);
    UniqueFd listener(config.listen_fd);
    if (!listener) {
      ATOLL_ASSIGN(listener, OpenListener(endpoint, where));
    }
    Acceptor& acceptor = state_->acceptor;
    acceptor.assign(endpoint.protocol(), listener.get(), error);
    if (!error) acceptor.native_non_blocking(true, error);
    if (error) return Fail(SysError(where, error.value()));
    (void)listener.release();
    port_ = acceptor.local_endpoint(error).port();
    AcceptNext(state_);
    return {};
  }

  uint16_t port() const override { return port_; }
  void SetTls(std::shared_ptr<const TlsContext> tls) override {
    state_->core->tls = std::move(tls);
  }

  void Stop(int grace_ms, std::function<void()> done) override {
    CloseAcceptor();
    ServerCore& core = *state_->core;
    core.stopping = true;
    core.upstreams.Clear();
    ForEachConnection(core, [](Connection& connection) { connection.FinishSoon(); });
    if (core.connections.empty()) return core.loop.Post(std::move(done));
    state_->grace.expires_after(std::chrono::milliseconds(grace_ms));
    state_->grace.async_wait([state = state_](const ErrorCode& error) {
      if (!error) AbortConnections(*state->core);
    });
    core.on_idle = [state = state_.get(), done = std::move(done)] {
      state->grace.cancel();
      state->core->loop.Post(done);
    };
  }

 private:
  // Outlives the Server for as long as an operation of it is under way.
  struct State {
    State(AsioLoopImpl& loop, const ServerConfig& config, Handler handler)
        : core(std::make_shared<ServerCore>(loop, config, std::move(handler))),
          acceptor(loop.io()),
          pause(loop.io()),
          grace(loop.io()) {}
    std::shared_ptr<ServerCore> core;
    Acceptor acceptor;
    Timer pause;
    Timer grace;
  };

  static void AcceptNext(const std::shared_ptr<State>& state) {
    state->acceptor.async_wait(Acceptor::wait_read, [state](const ErrorCode& error) {
      if (error || !state->acceptor.is_open()) return;
      const int failure = AcceptBatch(*state);
      if (failure == 0) return AcceptNext(state);
      // Out of descriptors or memory: the waiting connection stays in the queue, so accepting again
      // at once would spin.
      LogLine(LogLevel::kWarning, "cannot accept").Add(SysError("accept4", failure));
      state->pause.expires_after(kAcceptPause);
      state->pause.async_wait([state](const ErrorCode& aborted) {
        if (!aborted && state->acceptor.is_open()) AcceptNext(state);
      });
    });
  }

  // 0, or the errno that makes it useless to go on now.
  static int AcceptBatch(State& state) {
    for (int i = 0; i < kAcceptBatch; ++i) {
      Tcp::endpoint peer;
      auto size = static_cast<socklen_t>(peer.capacity());
      const int listener = state.acceptor.native_handle();
      UniqueFd fd(accept4(listener, peer.data(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd && errno == EMFILE) {
        size = static_cast<socklen_t>(peer.capacity());
        fd = AcceptReserved(listener, peer.data(), &size);
      }
      if (fd) {
        peer.resize(size);
        Welcome(state, std::move(fd), peer);
        continue;
      }
      if (errno == EAGAIN) return 0;
      // Errors of one connection that has broken already (accept(2), "Error handling").
      const bool of_this_one = errno == ECONNABORTED || errno == EINTR || errno == EPROTO ||
                               errno == ENETDOWN || errno == EHOSTUNREACH || errno == ENETUNREACH;
      if (!of_this_one) return errno;
    }
    return 0;
  }

  static void Welcome(State& state, UniqueFd fd, const Tcp::endpoint& peer) {
    const std::shared_ptr<ServerCore>& core = state.core;
    const size_t open = core->connections.size();
    const size_t limit = core->config.max_connections;
    if (open >= limit + kMaxRefusing) return;
    TuneSocket(fd.get());
    Stream stream(core->loop.io());
    ErrorCode error;
    stream.assign(peer.protocol(), fd.get(), error);
    if (error) return;  // epoll's limit of watches: no connection without one
    const bool brief = IsSpare(fd.release());
    auto connection = std::make_shared<Connection>(core, std::move(stream));
    // A handshake is dear: who is one too many gets none, only the end of the connection.
    if (open >= limit && core->tls) return;
    if (open >= limit) return connection->Refuse();
    if (brief) Hurry(state, connection);
    connection->Start(PeerName(peer), IsLocal(peer));
  }

  // One of the last descriptors: enough for an answer, and then for the next who asks.
  static void Hurry(State& state, const std::shared_ptr<Connection>& connection) {
    connection->CloseAfterAnswer();
    state.core->loop.After(kBriefUs, [weak = connection->weak_from_this()] {
      if (const auto late = weak.lock()) late->Abort(false);
    });
  }

  // `visit` may close the connection it is given, and with it others.
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

  void CloseAcceptor() {
    ErrorCode ignored;
    state_->acceptor.close(ignored);
    state_->pause.cancel();
  }

  void AbortAll() {
    state_->grace.cancel();
    state_->core->stopping = true;
    state_->core->upstreams.Clear();
    AbortConnections(*state_->core);
  }

  std::shared_ptr<State> state_;
  uint16_t port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> AsioLoopImpl::Listen(const ServerConfig& config, Handler handler) {
  auto server = std::make_unique<ServerImpl>(*this, config, std::move(handler));
  ATOLL_TRY(server->Listen());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace atl::http
