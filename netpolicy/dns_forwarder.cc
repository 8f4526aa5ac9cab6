#include "netpolicy/dns_forwarder.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "netpolicy/dns_message.h"

namespace atl::netpolicy {
namespace {

// The most that we send in one datagram, however much a client says it can take: longer ones are
// fragmented on the way (dnsflagday.net), and the path to a sandbox is no exception.
constexpr size_t kMaxUdpAnswer = 4096;
constexpr int kTcpBacklog = 64;
// Of a client's connection: the kernel would let it grow to megabytes for one that does not read.
constexpr int kTcpSendBuffer = 64 * 1024;
// Datagrams or connections taken in one go, so that other work gets its turn.
constexpr int kBatch = 32;

Result<UniqueFd> BindSocket(const Endpoint& endpoint, int type) {
  const std::string what =
      (type == SOCK_DGRAM ? "DNS socket udp " : "DNS socket tcp ") + endpoint.ToString();
  UniqueFd fd(::socket(endpoint.family(), type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return FailSys("socket for " + what);
  const int on = 1;
  // After a restart connections of the former daemon may still be in TIME_WAIT.
  if (type == SOCK_STREAM &&
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return FailSys("setsockopt SO_REUSEADDR on " + what);
  }
  if (::bind(fd.get(), endpoint.get(), endpoint.size) != 0) {
    std::string call = "bind " + what;
    if (errno == EADDRINUSE) {
      call += " (another name server has port 53 on all addresses: bind it to its own)";
    }
    return FailSys(call);
  }
  if (type == SOCK_STREAM && ::listen(fd.get(), kTcpBacklog) != 0) return FailSys("listen " + what);
  return fd;
}

Result<Endpoint> BoundTo(int fd, Endpoint endpoint) {
  if (::getsockname(fd, endpoint.get(), &endpoint.size) != 0) return FailSys("getsockname");
  return endpoint;
}

}  // namespace

Result<std::unique_ptr<DnsForwarder>> DnsForwarder::Open(Config config) {
  std::vector<Endpoint> endpoints;
  std::vector<Listener> listeners;
  for (const std::string& address : config.listen) {
    // With port 0 the text alone would be refused by nobody: it is set from what was bound.
    ATOLL_ASSIGN(const Endpoint wanted, ParseEndpoint(address, config.port));
    Listener listener;
    ATOLL_ASSIGN(listener.udp, BindSocket(wanted, SOCK_DGRAM));
    ATOLL_ASSIGN(const Endpoint bound, BoundTo(listener.udp.get(), wanted));
    ATOLL_ASSIGN(listener.tcp, BindSocket(bound, SOCK_STREAM));
    endpoints.push_back(bound);
    listeners.push_back(std::move(listener));
  }
  ATOLL_ASSIGN(DnsUpstreams upstreams,
               DnsUpstreams::Make(config.upstreams, config.resolv_conf, endpoints));
  std::unique_ptr<DnsForwarder> forwarder(new DnsForwarder(config.limits, std::move(upstreams)));
  forwarder->endpoints_ = std::move(endpoints);
  forwarder->listeners_ = std::move(listeners);
  return forwarder;
}

DnsForwarder::~DnsForwarder() {
  if (!loop_) return;
  for (const Loop::Id watch : watches_) loop_->Unwatch(watch);
}

Status DnsForwarder::Start(Loop& loop) {
  if (loop_) return Fail(Code::kFailedPrecondition, "DNS forwarder: started already");
  loop_ = &loop;
  for (size_t i = 0; i < listeners_.size(); ++i) {
    watches_.push_back(
        loop.WatchReadable(listeners_[i].udp.get(), [this, i] { OnUdpReadable(i); }));
    watches_.push_back(loop.WatchReadable(listeners_[i].tcp.get(), [this, i] { OnConnection(i); }));
  }
  return {};
}

void DnsForwarder::OnUdpReadable(size_t listener) {
  // One byte more than a query may have, so that a longer one shows.
  std::array<uint8_t, kDnsMaxQuery + 1> buffer;
  for (int i = 0; i < kBatch; ++i) {
    Endpoint from;
    const ssize_t n = TEMP_FAILURE_RETRY(::recvfrom(listeners_[listener].udp.get(), buffer.data(),
                                                    buffer.size(), 0, from.get(), &from.size));
    if (n < 0) return;
    Client client;
    client.source = from.AddressBytes();
    client.listener = listener;
    client.from = from;
    const std::span<const uint8_t> message(buffer.data(), static_cast<size_t>(n));
    if (message.size() > kDnsMaxQuery) {
      Reply(client, MakeDnsError(message, DnsRcode::kFormatError));
    } else {
      OnQuery(message, std::move(client));
    }
  }
}

void DnsForwarder::OnConnection(size_t listener) {
  for (int i = 0; i < kBatch; ++i) {
    Endpoint from;
    UniqueFd socket(::accept4(listeners_[listener].tcp.get(), from.get(), &from.size,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kTcpSendBuffer, sizeof kTcpSendBuffer) !=
        0) {
      continue;
    }
    std::string source = from.AddressBytes();
    // Over a limit the connection closes here: the client sees a reset and tries again or not.
    if (connections_.size() >= limits_.tcp_clients) continue;
    if (const auto used = usage_.find(source);
        used != usage_.end() && used->second.connections >= limits_.tcp_clients_per_source) {
      continue;
    }
    ++usage_[source].connections;
    const uint64_t id = next_id_++;
    auto on_query = [this, id, source](std::span<const uint8_t> message) {
      Client client;
      client.source = source;
      client.tcp_id = id;
      OnQuery(message, std::move(client));
    };
    auto client =
        std::make_unique<DnsTcpClient>(*loop_, std::move(socket), limits_.tcp_idle_us,
                                       std::move(on_query), [this, id] { CloseConnection(id); });
    connections_.emplace(id, Connection{std::move(source), std::move(client)});
  }
}

void DnsForwarder::CloseConnection(uint64_t id) {
  auto connection = connections_.extract(id);
  if (connection.empty()) return;
  const std::string& source = connection.mapped().source;
  --usage_[source].connections;
  Release(source);
}

void DnsForwarder::Release(const std::string& source) {
  const auto used = usage_.find(source);
  if (used != usage_.end() && used->second.queries == 0 && used->second.connections == 0) {
    usage_.erase(used);
  }
}

void DnsForwarder::OnQuery(std::span<const uint8_t> message, Client client) {
  const auto result = ParseDnsQuery(message);
  if (!result) return;
  if (result->rcode != DnsRcode::kNoError) {
    return Reply(client, MakeDnsError(message, result->rcode));
  }
  const auto used = usage_.find(client.source);
  const bool over = pending_.size() >= limits_.queries ||
                    (used != usage_.end() && used->second.queries >= limits_.queries_per_source);
  if (over || upstreams_.Current().empty()) {
    return Reply(client, MakeDnsError(message, DnsRcode::kServerFailure));
  }
  Forward(message, std::move(client));
}

void DnsForwarder::Forward(std::span<const uint8_t> message, Client client) {
  const uint64_t id = next_id_++;
  const bool over_tcp = client.tcp_id != 0;
  ++usage_[client.source].queries;
  Pending& pending = pending_[id];
  pending.client = std::move(client);
  pending.query.assign(message.begin(), message.end());
  pending.exchange = std::make_unique<DnsExchange>(
      *loop_, message, upstreams_.Current(), over_tcp, limits_.timeouts,
      [this](const Endpoint& failed) { upstreams_.Demote(failed); },
      [this, id](std::vector<uint8_t> answer) { OnAnswer(id, std::move(answer)); });
}

void DnsForwarder::OnAnswer(uint64_t id, std::vector<uint8_t> answer) {
  auto node = pending_.extract(id);
  if (node.empty()) return;
  const Pending& pending = node.mapped();
  --usage_[pending.client.source].queries;
  Release(pending.client.source);

  const auto query = ParseDnsQuery(pending.query);
  if (answer.empty()) {
    return Reply(pending.client, MakeDnsError(pending.query, DnsRcode::kServerFailure));
  }
  SetDnsId(answer, query->query.header.id);
  const bool over_udp = pending.client.tcp_id == 0;
  if (over_udp && answer.size() > std::min(query->query.udp_size, kMaxUdpAnswer)) {
    return Reply(pending.client, MakeDnsTruncated(query->query, ParseDnsHeader(answer)->flags));
  }
  Reply(pending.client, answer);
}

void DnsForwarder::Reply(const Client& client, std::span<const uint8_t> message) {
  if (message.empty()) return;
  if (client.tcp_id != 0) {
    const auto connection = connections_.find(client.tcp_id);
    if (connection != connections_.end()) connection->second.client->Send(message);
    return;
  }
  // A full socket buffer loses the datagram, as the network may: the client asks again.
  (void)::sendto(listeners_[client.listener].udp.get(), message.data(), message.size(),
                 MSG_DONTWAIT | MSG_NOSIGNAL, client.from.get(), client.from.size);
}

}  // namespace atl::netpolicy
