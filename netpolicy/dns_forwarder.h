// The name server of the sandboxes, on the gateway addresses: passes queries on to upstreams and
// brings their answers back. No cache: the host's resolver usually has one.
//
// A source is told apart by its address, which the rules guarantee. All that a sandbox can make
// grow has a limit, per source and in total.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "netpolicy/dns_exchange.h"
#include "netpolicy/dns_tcp_client.h"
#include "netpolicy/dns_upstreams.h"
#include "netpolicy/endpoint.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

class DnsForwarder {
 public:
  struct Limits {
    size_t queries = 1024;  // each holds one or two descriptors
    size_t queries_per_source = 64;
    size_t tcp_clients = 256;
    size_t tcp_clients_per_source = 8;
    int64_t tcp_idle_us = 10'000'000;
    DnsTimeouts timeouts;
  };
  struct Config {
    std::vector<std::string> listen;  // addresses
    uint16_t port = 53;               // 0: any, see `endpoints`
    std::vector<std::string> upstreams;
    std::string resolv_conf = "/etc/resolv.conf";
    Limits limits;
  };

  // Binds UDP and TCP sockets, which may need CAP_NET_BIND_SERVICE. Nothing is answered yet.
  static Result<std::unique_ptr<DnsForwarder>> Open(Config config);
  DnsForwarder(const DnsForwarder&) = delete;
  DnsForwarder& operator=(const DnsForwarder&) = delete;
  ~DnsForwarder();

  // Begins to answer; `loop` must outlive this object.
  Status Start(Loop& loop);

  // What it listens on, in the order of Config::listen; UDP and TCP have the same port.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

 private:
  struct Listener {
    UniqueFd udp;
    UniqueFd tcp;
  };
  // Whom an answer goes to.
  struct Client {
    std::string source;   // address bytes
    uint64_t tcp_id = 0;  // 0: over UDP
    size_t listener = 0;  // over UDP
    Endpoint from;        // over UDP
  };
  struct Pending {
    Client client;
    std::vector<uint8_t> query;  // as it came
    std::unique_ptr<DnsExchange> exchange;
  };
  struct Connection {
    std::string source;
    std::unique_ptr<DnsTcpClient> client;
  };
  struct Usage {
    size_t queries = 0;
    size_t connections = 0;
  };

  DnsForwarder(Limits limits, DnsUpstreams upstreams)
      : limits_(limits), upstreams_(std::move(upstreams)) {}
  void OnUdpReadable(size_t listener);
  void OnConnection(size_t listener);
  void OnQuery(std::span<const uint8_t> message, Client client);
  void Forward(std::span<const uint8_t> message, Client client);
  void OnAnswer(uint64_t id, std::vector<uint8_t> answer);
  void Reply(const Client& client, std::span<const uint8_t> message);
  void CloseConnection(uint64_t id);
  void Release(const std::string& source);

  Limits limits_;
  DnsUpstreams upstreams_;
  Loop* loop_ = nullptr;
  std::vector<Endpoint> endpoints_;
  std::vector<Listener> listeners_;
  std::vector<Loop::Id> watches_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Pending> pending_;
  std::map<uint64_t, Connection> connections_;
  std::map<std::string, Usage> usage_;  // only of sources that have something
};

}  // namespace atl::netpolicy
