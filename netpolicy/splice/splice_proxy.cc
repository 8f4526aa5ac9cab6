#include "netpolicy/splice/splice_proxy.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include "netpolicy/address/fair_share.h"

namespace atl::netpolicy {
namespace {

// Defined in <linux/netfilter_ipv4.h> and <linux/netfilter_ipv6/ip6_tables.h>, which conflict with
// <netinet/in.h>. Both families use the same number.
constexpr int kOriginalDestination = 80;
constexpr int kBacklog = 512;
constexpr int kEventBatch = 128;
// Work of one turn before the loop serves others: bytes of one connection in each direction, bytes
// of all connections, and number of connections. At 2 GB/s a turn takes half a millisecond.
constexpr size_t kTurnBytes = 256 * 1024;
constexpr uint64_t kTurnBytesOfAll = 1024 * 1024;
constexpr size_t kTurnConnections = 64;

// Tag of the wake-up event in the epoll set. The tags of connections end in 0 and 1.
constexpr uint64_t kWakeTag = 3;

Result<UniqueFd> ListenOn(Endpoint& endpoint) {
  const std::string what = "splice proxy socket " + endpoint.ToString();
  UniqueFd fd(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return FailSys("socket for " + what);
  const int on = 1;
  // After a restart connections of the former daemon may still be in TIME_WAIT.
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return FailSys("setsockopt SO_REUSEADDR on " + what);
  }
  ATOLL_TRY(SetRelayOptions(fd.get()));
  if (::bind(fd.get(), endpoint.get(), endpoint.size) != 0) return FailSys("bind " + what);
  if (::listen(fd.get(), kBacklog) != 0) return FailSys("listen " + what);
  if (::getsockname(fd.get(), endpoint.get(), &endpoint.size) != 0) return FailSys("getsockname");
  return fd;
}

void SetPort(Endpoint& endpoint, const Endpoint& like) {
  // The port is at the same offset in both families.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  reinterpret_cast<sockaddr_in*>(&endpoint.address)->sin_port =
      reinterpret_cast<const sockaddr_in*>(&like.address)->sin_port;
}

void Reset(UniqueFd socket) {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

}  // namespace

std::optional<Endpoint> OriginalDestination(int socket) {
  Endpoint local;
  if (::getsockname(socket, local.get(), &local.size) != 0) return std::nullopt;
  Endpoint original;
  const int level = local.family() == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
  if (::getsockopt(socket, level, kOriginalDestination, original.get(), &original.size) != 0) {
    return std::nullopt;
  }
  return original;
}

Result<std::unique_ptr<SpliceProxy>> SpliceProxy::Open(Config config) {
  std::unique_ptr<SpliceProxy> proxy(new SpliceProxy(std::move(config)));
  proxy->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!proxy->epoll_) return FailSys("epoll_create1 for the splice proxy");
  proxy->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!proxy->wake_) return FailSys("eventfd for the splice proxy");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeTag;
  if (::epoll_ctl(proxy->epoll_.get(), EPOLL_CTL_ADD, proxy->wake_.get(), &event) != 0) {
    return FailSys("epoll_ctl of the splice proxy");
  }
  ATOLL_TRY(proxy->Listen());
  return proxy;
}

Status SpliceProxy::Listen() {
  for (const std::string& address : config_.listen) {
    ATOLL_ASSIGN(Endpoint endpoint, ParseEndpoint(address, config_.port));
    if (config_.port == 0 && !endpoints_.empty()) SetPort(endpoint, endpoints_[0]);
    ATOLL_ASSIGN(UniqueFd socket, ListenOn(endpoint));
    endpoints_.push_back(endpoint);
    listeners_.push_back(std::move(socket));
  }
  return {};
}

SpliceProxy::~SpliceProxy() {
  connections_.clear();
  if (!loop_) return;
  loop_->Unwatch(watch_);
}

Status SpliceProxy::Start(Loop& loop, ProxyGate& gate) {
  if (loop_) return Fail(Code::kFailedPrecondition, "splice proxy: already started");
  watch_ = loop.WatchReadable(epoll_.get(), [this] { OnReady(); });
  if (watch_ == 0) return Fail(Code::kInternal, "splice proxy: its epoll set cannot be watched");
  loop_ = &loop;
  gate_ = &gate;
  for (size_t i = 0; i < listeners_.size(); ++i) {
    ATOLL_ASSIGN(
        acceptors_.emplace_back(),
        Acceptor::Start(
            loop, listeners_[i].get(), {.name = "splice proxy, " + endpoints_[i].ToString()},
            [this](Acceptor::Connection& connection) {
              Admit(std::move(connection.socket), {connection.peer, connection.peer_size});
            }));
  }
  return {};
}

bool SpliceProxy::IsOwn(const Endpoint& endpoint) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(), [&](const Endpoint& own) {
    return own.AddressBytes() == endpoint.AddressBytes();
  });
}

void SpliceProxy::OnReady() {
  std::array<epoll_event, kEventBatch> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), kEventBatch, 0);
  in_turn_ = true;
  for (const epoll_event& event : std::span(events).first(static_cast<size_t>(std::max(n, 0)))) {
    OnEvent(event.data.u64, event.events);
  }
  RunScheduled();
  for (const uint64_t id : std::exchange(dead_, {})) connections_.erase(id);
  in_turn_ = false;
  Wake(!scheduled_.empty());
}

void SpliceProxy::OnEvent(uint64_t tag, uint32_t events) {
  if (tag == kWakeTag) return;
  const auto found = connections_.find(tag >> 2);
  if (found == connections_.end()) return;
  if (tag == SpliceConnection::ClientTag(tag >> 2)) {
    found->second->OnClientEvents(events);
  } else {
    found->second->OnServerEvents(events);
  }
}

void SpliceProxy::RunScheduled() {
  // Connections that are scheduled again during this turn come after all others.
  uint64_t moved = 0;
  for (size_t n = std::min(scheduled_.size(), kTurnConnections); n > 0 && moved < kTurnBytesOfAll;
       --n) {
    const auto found = connections_.find(scheduled_.front());
    scheduled_.pop_front();
    if (found != connections_.end()) moved += found->second->Run(kTurnBytes);
  }
}

void SpliceProxy::Wake(bool on) {
  if (awake_ == on) return;
  uint64_t count = 1;
  const ssize_t n =
      on ? ::write(wake_.get(), &count, sizeof count) : ::read(wake_.get(), &count, sizeof count);
  if (n == sizeof count) awake_ = on;
}

void SpliceProxy::Admit(UniqueFd socket, const Endpoint& from) {
  std::string source = config_.source_of(from);
  const auto known = sources_.find(source);
  const size_t held = known == sources_.end() ? 0 : known->second.connections.size();
  const size_t undialled = known == sources_.end() ? 0 : known->second.undialled;
  const Limits& limits = config_.limits;
  if (held >=
          std::min(limits.connections_per_source, FairShare(limits.connections, connections())) ||
      undialled >= limits.undialled_per_source) {
    ++stats_.over_limit;
    return Reset(std::move(socket));
  }
  const auto original = config_.original_destination(socket.get());
  if (!original || IsOwn(*original)) {
    // A client has connected to the proxy itself.
    ++stats_.refused;
    gate_->Denied(source, original.value_or(Endpoint{}), "", "connection to the proxy itself");
    return Reset(std::move(socket));
  }
  const uint64_t id = next_id_++;
  auto connection = std::make_unique<SpliceConnection>(static_cast<SpliceConnections&>(*this), id,
                                                       source, *original, std::move(socket));
  if (!connection->Start()) return;
  ++stats_.accepted;
  Source& entry = sources_[std::move(source)];
  entry.connections.insert(id);
  ++entry.undialled;
  connections_.emplace(id, std::move(connection));
}

void SpliceProxy::OnOpen(uint64_t id) {
  --sources_[connections_[id]->source()].undialled;
}

void SpliceProxy::OnClosed(uint64_t id) {
  const SpliceConnection& connection = *connections_[id];
  const auto source = sources_.find(connection.source());
  source->second.connections.erase(id);
  if (!connection.opened()) --source->second.undialled;
  if (source->second.connections.empty()) sources_.erase(source);
  dead_.push_back(id);
  if (!in_turn_) Wake(true);
}

void SpliceProxy::Schedule(uint64_t id) {
  scheduled_.push_back(id);
  if (!in_turn_) Wake(true);
}

void SpliceProxy::Rejudge(std::string_view source) {
  const auto found = sources_.find(std::string(source));
  if (found == sources_.end()) return;
  // Iterates over a copy, because connections that end leave the set.
  for (const uint64_t id : std::set(found->second.connections)) connections_[id]->Rejudge();
}

void SpliceProxy::SetInterceptor(std::string_view source,
                                 std::shared_ptr<Interceptor> interceptor) {
  if (!interceptor) {
    interceptors_.erase(std::string(source));
  } else {
    interceptors_[std::string(source)] = std::move(interceptor);
  }
}

std::shared_ptr<Interceptor> SpliceProxy::InterceptorOf(const std::string& source) const {
  const auto found = interceptors_.find(source);
  return found == interceptors_.end() ? nullptr : found->second;
}

void SpliceProxy::Forget(std::string_view source) {
  SetInterceptor(source, nullptr);
  const auto found = sources_.find(std::string(source));
  if (found == sources_.end()) return;
  for (const uint64_t id : std::set(found->second.connections)) connections_[id]->Abort();
}

}  // namespace atl::netpolicy
