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

// An address in network order. Sorts by family, then numerically.
struct IpAddress {
  bool ipv6 = false;
  std::array<uint8_t, 16> bytes{};  // IPv4 uses the first 4 bytes

  static IpAddress FromBytes(std::span<const uint8_t> bytes);  // `bytes` has 4 or 16 elements
  std::span<const uint8_t> span() const { return std::span(bytes).first(ipv6 ? 16 : 4); }
  std::string ToString() const;
  // Returns the numerically next address. Empty for the last address of the family.
  std::optional<IpAddress> Next() const;

  auto operator<=>(const IpAddress&) const = default;
};

struct IpPrefix {
  IpAddress address;  // bits beyond `length` are 0
  uint8_t length = 0;

  IpAddress first() const { return address; }
  IpAddress last() const;
  bool Contains(const IpAddress& other) const;
  bool Contains(const IpPrefix& other) const;
  std::string ToString() const;  // "192.0.2.0/24"

  auto operator<=>(const IpPrefix&) const = default;
};

// Parses dotted quads without leading zeros and RFC 4291 texts without a scope. An IPv4-mapped IPv6
// address (::ffff:192.0.2.1) becomes that IPv4 address.
std::optional<IpAddress> ParseIpAddress(std::string_view text);
// Parses "ADDRESS/LENGTH" or an address alone, which becomes a prefix that holds only that address.
// Bits beyond the length are cleared.
std::optional<IpPrefix> ParseIpPrefix(std::string_view text);

}  // namespace atl::netpolicy
