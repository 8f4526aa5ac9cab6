// IPv4 and IPv6 addresses and prefixes as values.
//
// Thread rule: values and pure functions.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace atl::netpolicy {

// An address in network order. Ordered by family first, then as a number.
struct IpAddress {
  bool ipv6 = false;
  std::array<uint8_t, 16> bytes{};  // IPv4: the first 4

  static IpAddress FromBytes(std::span<const uint8_t> bytes);  // 4 or 16
  std::span<const uint8_t> span() const { return std::span(bytes).first(ipv6 ? 16 : 4); }
  std::string ToString() const;
  // The next address as a number; nothing after the last one of the family.
  std::optional<IpAddress> Next() const;

  auto operator<=>(const IpAddress&) const = default;
};

struct IpPrefix {
  IpAddress address;  // its bits behind `length` are 0
  uint8_t length = 0;

  IpAddress first() const { return address; }
  IpAddress last() const;
  bool Contains(const IpAddress& other) const;
  bool Contains(const IpPrefix& other) const;
  std::string ToString() const;  // "192.0.2.0/24"

  auto operator<=>(const IpPrefix&) const = default;
};

// Dotted quads without leading zeros, and RFC 4291 texts without a scope. An IPv4 address in IPv6
// clothes (::ffff:192.0.2.1) is that IPv4 address.
std::optional<IpAddress> ParseIpAddress(std::string_view text);
// "ADDRESS/LENGTH", or an address alone: the prefix that holds only it. Bits behind the length are
// cut off.
std::optional<IpPrefix> ParseIpPrefix(std::string_view text);

}  // namespace atl::netpolicy
