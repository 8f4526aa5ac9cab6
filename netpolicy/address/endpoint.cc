#include "netpolicy/address/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <charconv>
#include <cstring>

namespace atl::netpolicy {
namespace {

bool ParsePort(const std::string& text, uint16_t& port) {
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && parsed == end && port != 0;
}

bool FillIpv6(std::string address, Endpoint& endpoint, uint16_t port) {
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&endpoint.address);
  if (const size_t percent = address.find('%'); percent != std::string::npos) {
    in6->sin6_scope_id = ::if_nametoindex(address.substr(percent + 1).c_str());
    if (in6->sin6_scope_id == 0) return false;
    address.resize(percent);
  }
  if (::inet_pton(AF_INET6, address.c_str(), &in6->sin6_addr) != 1) return false;
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(port);
  endpoint.size = sizeof *in6;
  return true;
}

bool FillIpv4(const std::string& address, Endpoint& endpoint, uint16_t port) {
  auto* in = reinterpret_cast<sockaddr_in*>(&endpoint.address);
  if (::inet_pton(AF_INET, address.c_str(), &in->sin_addr) != 1) return false;
  in->sin_family = AF_INET;
  in->sin_port = htons(port);
  endpoint.size = sizeof *in;
  return true;
}

}  // namespace

std::string Endpoint::AddressBytes() const {
  if (family() == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    return {reinterpret_cast<const char*>(&in->sin_addr), sizeof in->sin_addr};
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address);
  return {reinterpret_cast<const char*>(&in6->sin6_addr), sizeof in6->sin6_addr};
}

uint16_t Endpoint::port() const {
  // The port is at the same offset in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

IpAddress Endpoint::ip() const {
  const std::string bytes = AddressBytes();
  return IpAddress::FromBytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string Endpoint::ToString() const {
  const std::string bytes = AddressBytes();
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(family(), bytes.data(), text, sizeof text);
  if (family() == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    return std::string(text) + ":" + std::to_string(ntohs(in->sin_port));
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address);
  return "[" + std::string(text) + "]:" + std::to_string(ntohs(in6->sin6_port));
}

Endpoint MakeEndpoint(const IpAddress& address, uint16_t port) {
  Endpoint endpoint;
  if (address.ipv6) {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&endpoint.address);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    std::memcpy(&in6->sin6_addr, address.bytes.data(), sizeof in6->sin6_addr);
    endpoint.size = sizeof *in6;
  } else {
    auto* in = reinterpret_cast<sockaddr_in*>(&endpoint.address);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    std::memcpy(&in->sin_addr, address.bytes.data(), sizeof in->sin_addr);
    endpoint.size = sizeof *in;
  }
  return endpoint;
}

Result<Endpoint> ParseEndpoint(const std::string& text, uint16_t default_port) {
  std::string address = text;
  uint16_t port = default_port;
  bool valid = true;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    valid = close != std::string::npos;
    address = valid ? text.substr(1, close - 1) : "";
    const std::string rest = valid ? text.substr(close + 1) : "";
    if (!rest.empty()) valid = rest[0] == ':' && ParsePort(rest.substr(1), port);
  } else if (const size_t colon = text.find(':');
             colon != std::string::npos && text.find(':', colon + 1) == std::string::npos) {
    address = text.substr(0, colon);
    valid = ParsePort(text.substr(colon + 1), port);
  }
  Endpoint endpoint;
  if (valid && (FillIpv4(address, endpoint, port) || FillIpv6(address, endpoint, port))) {
    return endpoint;
  }
  return Fail(Code::kInvalidArgument, "'" + text +
                                          "': neither an address nor address:port, write "
                                          "192.0.2.1, 192.0.2.1:53 or [2001:db8::1]:53");
}

}  // namespace atl::netpolicy
