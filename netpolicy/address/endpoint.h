// An IPv4 or IPv6 address with a port, in the form that sockets take.
//
// Thread rule: a value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>

#include "netpolicy/address/ip.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_storage);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
  int family() const { return address.ss_family; }
  uint16_t port() const;
  IpAddress ip() const;
  // The address without the port, 4 or 16 bytes in network order.
  std::string AddressBytes() const;
  std::string ToString() const;  // "192.0.2.1:53", "[2001:db8::1]:53"
};

// Maps the peer of a question or connection to the key under which limits and DNS views count it.
using SourceName = std::function<std::string(const Endpoint&)>;

Endpoint MakeEndpoint(const IpAddress& address, uint16_t port);

// Parses "address", "address:port" or "[IPv6]:port". An IPv6 address may have a scope
// ("fe80::1%eth0").
Result<Endpoint> ParseEndpoint(const std::string& text, uint16_t default_port);

}  // namespace atl::netpolicy
