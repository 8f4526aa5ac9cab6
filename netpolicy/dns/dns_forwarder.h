// The name server of the sandboxes, on the gateway addresses. Each source has its own view: the
// gate decides which names exist for it, and learns every address before the answer leaves.
// Questions and answers are parsed and rebuilt; nothing is passed through unseen.
//
// Sources are told apart by their address, which the nftables rules guarantee. Everything that a
// sandbox can make grow has a limit, per source and in total, and no number of sources can take the
// total.
//
// Thread rule: on the loop. Must not be destroyed, and no source may be forgotten, from within a
// call to the gate.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/dns/dns_counts.h"
#include "netpolicy/dns/dns_datagrams.h"
#include "netpolicy/dns/dns_gate.h"
#include "netpolicy/dns/dns_resolver.h"
#include "netpolicy/dns/dns_sources.h"
#include "netpolicy/dns/dns_tcp_client.h"
#include "runtime/base/acceptor.h"
#include "runtime/base/clock.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

class DnsForwarder {
 public:
  struct Limits {
    // Queries that wait for an upstream. Each holds one descriptor for each upstream that was
    // asked, at most four with these timeouts.
    size_t queries = 1024;
    size_t tcp_clients = 256;
    int64_t tcp_idle_us = 10'000'000;
    DnsSources::Limits source;
    size_t policed_name_bytes = kPolicedNameBytes;
    size_t policed_name_labels = kPolicedNameLabels;
    DnsCache::Limits cache;
    DnsTimeouts timeouts;
  };
  struct Config {
    std::vector<std::string> listen;  // addresses
    uint16_t port = 53;               // 0: any free port, see endpoints()
    std::vector<std::string> upstreams;
    std::string resolv_conf = "/etc/resolv.conf";
    Limits limits;
    SourceName source_of = &Endpoint::AddressBytes;
    const Clock* clock = &SystemClock();  // borrowed
  };

  // Binds the UDP and TCP sockets, which may need CAP_NET_BIND_SERVICE. Answers nothing until
  // Start.
  static Result<std::unique_ptr<DnsForwarder>> Open(Config config);
  DnsForwarder(const DnsForwarder&) = delete;
  DnsForwarder& operator=(const DnsForwarder&) = delete;
  ~DnsForwarder();

  // Starts to answer. `loop` and `gate` must outlive this object. Without a gate every source sees
  // all names.
  Status Start(Loop& loop, DnsGate* gate = nullptr);

  // The bound addresses, in the order of Config::listen. UDP and TCP use the same port.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

  // Questions since the start, without those of Resolve.
  const DnsCounts& counts() const { return counts_; }

  // Drops all state of a source whose sandbox has ended: its pending queries get no answer, its
  // connections are closed, and its limits start anew for the next sandbox with that address.
  void Forget(std::string_view source);

  // Resolves `name` to its addresses of both families, for a connection of `source` that the gate
  // allows. Call after Start. It counts as a question of the source. The list is empty if the name
  // has no address, or if the source asks for too many names. `resolved` is called once unless
  // cancelled, and never from within this call. Returns the id for CancelResolve.
  using Resolved = std::function<void(std::vector<IpAddress>)>;
  uint64_t Resolve(std::string_view source, std::string_view name, bool under_policy,
                   Resolved resolved);
  void CancelResolve(uint64_t id);

 private:
  struct Listener {
    UniqueFd udp;
    UniqueFd tcp;
  };
  // The recipient of an answer.
  struct Client {
    std::string source;
    uint64_t tcp_id = 0;  // 0: over UDP
    size_t listener = 0;  // index of the UDP socket
    Endpoint from;        // the client's address, for UDP
  };
  struct Pending {
    Client client;
    std::vector<uint8_t> query;  // the received message
    DnsResolver::Id ask = 0;
  };
  struct Resolving {
    std::string source;
    bool counted = false;  // counts among the source's queries
    std::vector<DnsResolver::Id> asks;
    size_t open = 0;
    std::vector<IpAddress> addresses;
    Resolved resolved;
  };
  struct Connection {
    std::string source;
    std::unique_ptr<DnsTcpClient> client;
  };

  DnsForwarder(const Config& config, DnsUpstreams upstreams);
  void OnUdpReadable(size_t listener);
  void OnConnection(Acceptor::Connection& connection);
  void OnQuery(std::span<const uint8_t> message, const Client& client);
  std::optional<DnsAnswer> OwnAnswer(const DnsLookup& lookup,
                                     const DnsGate::Judgement& judgement) const;
  void LookUp(const DnsLookup& lookup, bool under_policy, const DnsQuery& query,
              std::span<const uint8_t> message, const Client& client);
  std::optional<DnsRcode> Refuse(bool leaves, std::string_view source);
  void OnResolved(uint64_t id, std::vector<IpAddress> addresses);
  Resolving EndResolve(uint64_t id);
  void OnAnswer(uint64_t id, const DnsAnswer& answer);
  void Answer(const Client& client, const DnsQuery& query, const DnsAnswer& answer, uint32_t age);
  // Replies, and counts the question. `type`: 0 if it could not be read.
  void Reply(const Client& client, std::vector<uint8_t> message, DnsResult result, uint16_t type);
  void CloseConnection(uint64_t id);

  Limits limits_;
  const SourceName source_of_;
  const Clock& clock_;
  DnsGate* gate_ = nullptr;
  Loop* loop_ = nullptr;
  std::vector<Endpoint> endpoints_;
  std::vector<Listener> listeners_;
  std::vector<Loop::Id> watches_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  DnsDatagrams datagrams_;
  DnsResolver resolver_;
  DnsSources sources_;
  DnsCounts counts_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Pending> pending_;
  std::map<uint64_t, Resolving> resolving_;
  std::map<uint64_t, Connection> connections_;
};

}  // namespace atl::netpolicy
