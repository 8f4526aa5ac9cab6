#include "netpolicy/address/ip.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace atl::netpolicy {
namespace {

constexpr std::array<uint8_t, 12> kMappedIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// Returns the mask of byte `index` under a prefix of `length` bits.
uint8_t MaskOf(size_t index, size_t length) {
  if (length >= (index + 1) * 8) return 0xff;
  if (length <= index * 8) return 0;
  return static_cast<uint8_t>(0xff << (8 - (length - index * 8)));
}

}  // namespace

IpAddress IpAddress::FromBytes(std::span<const uint8_t> bytes) {
  IpAddress address;
  if (bytes.size() == 16 &&
      std::memcmp(bytes.data(), kMappedIpv4.data(), kMappedIpv4.size()) == 0) {
    bytes = bytes.subspan(kMappedIpv4.size());
  }
  address.ipv6 = bytes.size() == 16;
  std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
  return address;
}

std::string IpAddress::ToString() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(ipv6 ? AF_INET6 : AF_INET, bytes.data(), text.data(), text.size());
  return text.data();
}

std::optional<IpAddress> IpAddress::Next() const {
  IpAddress next = *this;
  for (size_t i = ipv6 ? 16 : 4; i-- > 0;) {
    if (++next.bytes[i] != 0) return next;
  }
  return std::nullopt;
}

IpAddress IpPrefix::last() const {
  IpAddress last = address;
  for (size_t i = 0; i < (address.ipv6 ? 16 : 4); ++i) {
    last.bytes[i] = static_cast<uint8_t>(last.bytes[i] | ~MaskOf(i, length));
  }
  return last;
}

bool IpPrefix::Contains(const IpAddress& other) const {
  if (other.ipv6 != address.ipv6) return false;
  return other >= first() && other <= last();
}

bool IpPrefix::Contains(const IpPrefix& other) const {
  return other.length >= length && Contains(other.address);
}

std::string IpPrefix::ToString() const {
  return address.ToString() + "/" + std::to_string(length);
}

std::optional<IpAddress> ParseIpAddress(std::string_view text) {
  const std::string copy(text);
  if (copy.size() != std::strlen(copy.c_str())) return std::nullopt;
  std::array<uint8_t, 16> bytes{};
  if (::inet_pton(AF_INET, copy.c_str(), bytes.data()) == 1) {
    return IpAddress::FromBytes(std::span(bytes).first(4));
  }
  if (::inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1) return IpAddress::FromBytes(bytes);
  return std::nullopt;
}

std::optional<IpPrefix> ParseIpPrefix(std::string_view text) {
  const size_t slash = text.find('/');
  const auto address = ParseIpAddress(text.substr(0, slash));
  if (!address) return std::nullopt;
  const uint8_t bits = address->ipv6 ? 128 : 32;
  IpPrefix prefix{*address, bits};
  if (slash == std::string_view::npos) return prefix;
  // A mapped prefix such as ::ffff:192.0.2.0/120 is refused: its length would count from the start
  // of the IPv6 address, but the address has become IPv4.
  if (!address->ipv6 && text.find(':') != std::string_view::npos) return std::nullopt;
  const std::string_view length = text.substr(slash + 1);
  const auto [rest, error] =
      std::from_chars(length.data(), length.data() + length.size(), prefix.length);
  if (error != std::errc() || rest != length.data() + length.size() || prefix.length > bits) {
    return std::nullopt;
  }
  for (size_t i = 0; i < bits / 8; ++i) {
    prefix.address.bytes[i] =
        static_cast<uint8_t>(prefix.address.bytes[i] & MaskOf(i, prefix.length));
  }
  return prefix;
}

}  // namespace atl::netpolicy
