// The servers that bench/dns asks: the product's name server on a thread of its own, and what it is
// compared with. All on loopback, none outlives its object.
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

// Puts the calling thread on one processor, counted from 0, modulo those that there are.
void PinThread(unsigned processor);

// Takes one datagram after the other and sends one back: what two system calls cost.
class DatagramServer {
 public:
  enum class Kind {
    kEcho,
    kNames,  // every name has one address, for an hour
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

// DnsForwarder on the daemon's loop, with a gate that lets everything pass and no limits by source.
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
