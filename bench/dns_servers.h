// The name servers that bench/dns asks: the product's own on a thread of its own, and those it is
// compared with. All listen on loopback, and each ends with its object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/dns/dns_forwarder.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/server.h"

namespace atl::bench {

// Pins the calling thread to one CPU. `processor` counts from 0, modulo the number of CPUs.
void PinThread(unsigned processor);

// Receives one datagram after the other and answers each. The measure for two system calls.
class DatagramServer {
 public:
  enum class Kind {
    kEcho,
    kNames,  // answers every name with one address, TTL one hour
  };
  static Result<std::unique_ptr<DatagramServer>> Start(Kind kind, unsigned processor);
  ~DatagramServer();

  const netpolicy::Endpoint& endpoint() const { return endpoint_; }
  double ProcessorSeconds();

 private:
  DatagramServer() = default;
  void Serve(Kind kind);

  UniqueFd socket_;
  UniqueFd stop_;
  netpolicy::Endpoint endpoint_;
  std::thread thread_;
};

// A DnsForwarder on the daemon's loop. Its gate allows everything, and it has no limits per source.
class NameServer {
 public:
  static Result<std::unique_ptr<NameServer>> Start(const netpolicy::Endpoint& upstream,
                                                   unsigned processor);
  ~NameServer();

  const netpolicy::Endpoint& endpoint() const { return forwarder_->endpoints()[0]; }
  double ProcessorSeconds();

 private:
  NameServer() = default;

  std::unique_ptr<netpolicy::DnsGate> gate_;
  std::unique_ptr<http::PooledLoop> loop_;
  std::unique_ptr<netpolicy::DnsForwarder> forwarder_;
  std::thread thread_;
};

}  // namespace atl::bench
