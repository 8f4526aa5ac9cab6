#include "netpolicy/dns/dns_forwarder.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "netpolicy/address/fair_share.h"
#include "netpolicy/dns/dns_answer.h"
#include "netpolicy/dns/dns_lookup.h"
#include "netpolicy/dns/dns_message.h"

namespace atl::netpolicy {
namespace {

// Longest datagram that is sent, whatever size the client announces. Longer ones are fragmented
// (dnsflagday.net), also on the path to a sandbox.
constexpr size_t kMaxUdpAnswer = 4096;
// TTL of names that the gate answers itself; they may change at any moment.
constexpr uint32_t kLocalTtl = 5;
// A client of a gate may not keep an address longer than the gate keeps it open.
constexpr uint32_t kGatedTtl = 300;
constexpr int kTcpBacklog = 64;
// Send buffer of a client's connection. By default the kernel lets it grow to megabytes if the
// client does not read.
constexpr int kTcpSendBuffer = 64 * 1024;

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

// Returns true for the types that are looked up for a sandbox. No other type leads to an address,
// and the answers of some carry much more than a name.
bool LeavesHost(uint16_t type) {
  constexpr std::array kTypes{kDnsTypeA,  kDnsTypeNs,     kDnsTypeCname, kDnsTypeSoa, kDnsTypePtr,
                              kDnsTypeMx, kDnsTypeTxt,    kDnsTypeAaaa,  kDnsTypeSrv, kDnsTypeNaptr,
                              kDnsTypeDs, kDnsTypeDnskey, kDnsTypeCaa};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

DnsAnswer Empty(DnsRcode rcode) {
  DnsAnswer answer;
  answer.rcode = rcode;
  return answer;
}

}  // namespace

DnsForwarder::DnsForwarder(const Config& config, DnsUpstreams upstreams)
    : limits_(config.limits),
      source_of_(config.source_of),
      clock_(*config.clock),
      resolver_(std::move(upstreams), {config.limits.cache, config.limits.timeouts}, *config.clock),
      sources_(config.limits.source) {}

Result<std::unique_ptr<DnsForwarder>> DnsForwarder::Open(Config config) {
  std::vector<Endpoint> endpoints;
  std::vector<Listener> listeners;
  for (const std::string& address : config.listen) {
    // If the port is 0, the kernel picks the port of the UDP socket, and the TCP socket gets the
    // same one.
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
  std::unique_ptr<DnsForwarder> forwarder(new DnsForwarder(config, std::move(upstreams)));
  forwarder->endpoints_ = std::move(endpoints);
  forwarder->listeners_ = std::move(listeners);
  return forwarder;
}

DnsForwarder::~DnsForwarder() {
  if (!loop_) return;
  for (const Loop::Id watch : watches_) loop_->Unwatch(watch);
}

Status DnsForwarder::Start(Loop& loop, DnsGate* gate) {
  if (loop_) return Fail(Code::kFailedPrecondition, "DNS forwarder: already started");
  loop_ = &loop;
  gate_ = gate;
  resolver_.Start(loop);
  for (size_t i = 0; i < listeners_.size(); ++i) {
    watches_.push_back(
        loop.WatchReadable(listeners_[i].udp.get(), [this, i] { OnUdpReadable(i); }));
    ATOLL_ASSIGN(acceptors_.emplace_back(),
                 Acceptor::Start(loop, listeners_[i].tcp.get(),
                                 {.name = "DNS over TCP, " + endpoints_[i].ToString()},
                                 [this](auto& connection) { OnConnection(connection); }));
  }
  return {};
}

void DnsForwarder::OnUdpReadable(size_t listener) {
  Client client;
  client.listener = listener;
  datagrams_.Receive(listeners_[listener].udp.get(),
                     [&](std::span<const uint8_t> message, const Endpoint& from) {
                       client.source = source_of_(from);
                       client.from = from;
                       OnQuery(message, client);
                     });
}

void DnsForwarder::OnConnection(Acceptor::Connection& connection) {
  if (::setsockopt(connection.socket.get(), SOL_SOCKET, SO_SNDBUF, &kTcpSendBuffer,
                   sizeof kTcpSendBuffer) != 0) {
    return;
  }
  std::string source = source_of_({connection.peer, connection.peer_size});
  // Over a limit the connection is closed: the client sees a reset and may try again.
  const size_t share = FairShare(limits_.tcp_clients, connections_.size());
  if (!sources_.AddConnection(source, share, clock_.BootMicros())) return;
  const uint64_t id = next_id_++;
  Client origin;
  origin.source = source;
  origin.tcp_id = id;
  auto on_query = [this, origin = std::move(origin)](std::span<const uint8_t> message) {
    OnQuery(message, origin);
  };
  auto client =
      std::make_unique<DnsTcpClient>(*loop_, std::move(connection.socket), limits_.tcp_idle_us,
                                     std::move(on_query), [this, id] { CloseConnection(id); });
  connections_.emplace(id, Connection{std::move(source), std::move(client)});
}

void DnsForwarder::CloseConnection(uint64_t id) {
  const auto connection = connections_.extract(id);
  if (!connection.empty()) sources_.RemoveConnection(connection.mapped().source);
}

void DnsForwarder::Forget(std::string_view source) {
  std::erase_if(pending_, [&](const auto& pending) {
    if (pending.second.client.source != source) return false;
    resolver_.Cancel(pending.second.ask);
    return true;
  });
  std::erase_if(connections_,
                [&](const auto& connection) { return connection.second.source == source; });
  sources_.Forget(source);
}

uint64_t DnsForwarder::Resolve(std::string_view source, std::string_view name, bool under_policy,
                               Resolved resolved) {
  constexpr std::array kTypes{kDnsTypeA, kDnsTypeAaaa};
  // The name counts once as leaving the host, for all types that are asked. A cached answer of one
  // type does not excuse the other: if its answer cannot be cached, the name could leave at any
  // rate.
  bool leaves = false, may_begin = false;
  for (const uint16_t type : kTypes) {
    const auto lookup = LookupOf(name, type);
    if (!lookup || resolver_.Cached(*lookup).answer) continue;
    may_begin = true;
    if (!resolver_.Asking(*lookup)) leaves = true;
  }
  if (may_begin && Refuse(under_policy && leaves, source)) may_begin = false;
  const uint64_t id = next_id_++;
  Resolving& resolving = resolving_[id];
  resolving.source = source;
  resolving.counted = may_begin;
  resolving.open = kTypes.size();
  resolving.resolved = std::move(resolved);
  for (const uint16_t type : kTypes) {
    resolving.asks.push_back(resolver_.Resolve(
        name, type, may_begin, [this, id](std::vector<IpAddress> addresses, uint32_t) {
          OnResolved(id, std::move(addresses));
        }));
  }
  return id;
}

void DnsForwarder::OnResolved(uint64_t id, std::vector<IpAddress> addresses) {
  Resolving& resolving = resolving_[id];
  resolving.addresses.insert(resolving.addresses.end(), addresses.begin(), addresses.end());
  if (--resolving.open > 0) return;
  Resolving ended = EndResolve(id);
  ended.resolved(std::move(ended.addresses));
}

DnsForwarder::Resolving DnsForwarder::EndResolve(uint64_t id) {
  auto ended = resolving_.extract(id);
  if (ended.empty()) return {};
  if (ended.mapped().counted) sources_.RemoveQuery(ended.mapped().source);
  return std::move(ended.mapped());
}

void DnsForwarder::CancelResolve(uint64_t id) {
  for (const DnsResolver::Id ask : EndResolve(id).asks) resolver_.Cancel(ask);
}

void DnsForwarder::OnQuery(std::span<const uint8_t> message, const Client& client) {
  // Questions above the rate limit are dropped without an answer, which would cost more.
  if (!sources_.TakeQuestion(client.source, clock_.BootMicros())) {
    return counts_.Add(DnsResult::kLimited, 0);
  }
  if (message.size() > kDnsMaxQuery) {
    return Reply(client, MakeDnsError(message, DnsRcode::kFormatError), DnsResult::kFailed, 0);
  }
  const auto result = ParseDnsQuery(message);
  if (!result) return counts_.Add(DnsResult::kFailed, 0);
  if (result->rcode != DnsRcode::kNoError) {
    return Reply(client, MakeDnsError(message, result->rcode), DnsResult::kFailed, 0);
  }
  const DnsQuery& query = result->query;
  DnsGate::Judgement judgement;
  if (gate_) {
    judgement = gate_->Judge(client.source, query.question.name, query.question.type);
  }
  const DnsLookup lookup = LookupOf(query);
  if (const auto own = OwnAnswer(lookup, judgement)) {
    // Only the policy says that a name does not exist, before anybody was asked.
    const DnsResult counted = own->rcode == DnsRcode::kNxDomain         ? DnsResult::kDenied
                              : own->rcode == DnsRcode::kNotImplemented ? DnsResult::kFailed
                                                                        : DnsResult::kAnswered;
    return Reply(client, MakeDnsReply(query, *own), counted, lookup.type);
  }
  LookUp(lookup, judgement.under_policy, query, message, client);
}

// Returns the answers that need no upstream.
std::optional<DnsAnswer> DnsForwarder::OwnAnswer(const DnsLookup& lookup,
                                                 const DnsGate::Judgement& judgement) const {
  const uint16_t type = lookup.type;
  switch (judgement.verdict) {
    case DnsGate::Verdict::kNxDomain:
      return Empty(DnsRcode::kNxDomain);
    case DnsGate::Verdict::kLocal:
      return MakeDnsAnswer(type, judgement.addresses, kLocalTtl);
    case DnsGate::Verdict::kForward:
      break;
  }
  // A name with dots is two bytes shorter than on the wire.
  if (judgement.under_policy && (lookup.name.size() > limits_.policed_name_bytes + 2 ||
                                 DnsLabelCount(lookup.name) > limits_.policed_name_labels)) {
    return Empty(DnsRcode::kNxDomain);
  }
  // HTTPS and SVCB answers carry hints, which are addresses that the gate would not learn, and
  // keys, which hide the name in TLS.
  if (type == kDnsTypeHttps || type == kDnsTypeSvcb) return Empty(DnsRcode::kNoError);
  if (!LeavesHost(type)) return Empty(DnsRcode::kNotImplemented);
  return std::nullopt;
}

void DnsForwarder::LookUp(const DnsLookup& lookup, bool under_policy, const DnsQuery& query,
                          std::span<const uint8_t> message, const Client& client) {
  if (const DnsCache::Hit hit = resolver_.Cached(lookup); hit.answer) {
    return Answer(client, query, *hit.answer, hit.age);
  }
  // If the same lookup is in flight, the name does not leave the host again.
  const bool leaves = under_policy && !resolver_.Asking(lookup);
  if (const auto refusal = Refuse(leaves, client.source)) {
    return Reply(client, MakeDnsReply(query, Empty(*refusal)),
                 resolver_.CanAsk() ? DnsResult::kLimited : DnsResult::kFailed, lookup.type);
  }
  const uint64_t id = next_id_++;
  Pending& pending = pending_[id];
  pending.client = client;
  pending.query.assign(message.begin(), message.end());
  pending.ask = resolver_.Ask(lookup, [this, id](const auto& answer) { OnAnswer(id, *answer); });
}

// Returns the error for a query that cannot be sent to an upstream. Empty: the query may be sent
// and is counted. `leaves`: it sends a name under a policy out of the host.
std::optional<DnsRcode> DnsForwarder::Refuse(bool leaves, std::string_view source) {
  const int64_t now = clock_.BootMicros();
  if (!resolver_.CanAsk()) return DnsRcode::kServerFailure;
  if (leaves && !sources_.TakeLeaving(source, now)) return DnsRcode::kRefused;
  const size_t share = FairShare(limits_.queries, pending_.size() + resolving_.size());
  if (!sources_.AddQuery(source, share, now)) return DnsRcode::kServerFailure;
  return std::nullopt;
}

void DnsForwarder::OnAnswer(uint64_t id, const DnsAnswer& answer) {
  const auto node = pending_.extract(id);
  if (node.empty()) return;
  const Pending& pending = node.mapped();
  sources_.RemoveQuery(pending.client.source);
  const auto query = ParseDnsQuery(pending.query);
  Answer(pending.client, query->query, answer, 0);
}

void DnsForwarder::Answer(const Client& client, const DnsQuery& query, const DnsAnswer& answer,
                          uint32_t age) {
  const bool over_udp = client.tcp_id == 0;
  // A truncated answer asks the client to use TCP, which it already does.
  if (answer.truncated && !over_udp) {
    return Reply(client, MakeDnsReply(query, Empty(DnsRcode::kServerFailure)), DnsResult::kFailed,
                 query.question.type);
  }
  const bool answered = answer.rcode == DnsRcode::kNoError || answer.rcode == DnsRcode::kNxDomain;
  DnsResult result = answered ? DnsResult::kAnswered : DnsResult::kFailed;
  const uint32_t most_ttl = gate_ ? kGatedTtl : kDnsMaxTtl;
  std::vector<uint8_t> reply = MakeDnsReply(query, answer, age, most_ttl);
  if (over_udp && reply.size() > std::min(query.udp_size, kMaxUdpAnswer)) {
    DnsAnswer truncated = Empty(answer.rcode);
    truncated.truncated = true;
    return Reply(client, MakeDnsReply(query, truncated), result, query.question.type);
  }
  if (gate_ && !answer.addresses.empty() &&
      !gate_->Learn(client.source, query.question.name, answer.aliases, answer.addresses,
                    std::min(answer.ttl - age, most_ttl))) {
    reply = MakeDnsReply(query, Empty(DnsRcode::kNxDomain));
    result = DnsResult::kDenied;
  }
  Reply(client, std::move(reply), result, query.question.type);
}

void DnsForwarder::Reply(const Client& client, std::vector<uint8_t> message, DnsResult result,
                         uint16_t type) {
  counts_.Add(result, type);
  if (message.empty()) return;
  if (client.tcp_id != 0) {
    const auto connection = connections_.find(client.tcp_id);
    if (connection != connections_.end()) connection->second.client->Send(message);
    return;
  }
  datagrams_.Send(listeners_[client.listener].udp.get(), std::move(message), client.from);
}

}  // namespace atl::netpolicy
