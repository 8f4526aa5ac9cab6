#include "netpolicy/address/addresses.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/result.h"

namespace atl::netpolicy {
namespace {

uint8_t Low(uint32_t value) {
  return static_cast<uint8_t>(value & 0xff);
}

Ipv6Bytes Ipv6With(uint32_t instance, uint32_t host) {
  Ipv6Bytes address{0xfd, 'a', 't', 'l', 'l', Low(instance)};
  address[14] = Low(host >> 8);
  address[15] = Low(host);
  return address;
}

}  // namespace

Ipv4Bytes SlotIpv4(uint32_t instance, uint32_t slot) {
  ATOLL_CHECK(instance <= kMaxInstance && slot <= kMaxSlot);
  return {10, Low(200 + instance), Low(slot >> 8), Low(slot)};
}

Ipv6Bytes SlotIpv6(uint32_t instance, uint32_t slot) {
  ATOLL_CHECK(instance <= kMaxInstance && slot <= kMaxSlot);
  return Ipv6With(instance, slot);
}

Ipv4Bytes GatewayIpv4(uint32_t instance) {
  return {10, Low(200 + instance), 255, 254};
}

Ipv6Bytes GatewayIpv6(uint32_t instance) {
  return Ipv6With(instance, 0xffff);
}

std::optional<uint32_t> SlotOfAddress(uint32_t instance, std::span<const uint8_t> address) {
  if (address.size() != 4 && address.size() != 16) return std::nullopt;
  const uint32_t slot =
      static_cast<uint32_t>(address[address.size() - 2]) << 8 | address[address.size() - 1];
  if (slot < 1 || slot > kMaxSlot) return std::nullopt;
  const auto is = [&](const auto& own) {
    return std::equal(address.begin(), address.end(), own.begin(), own.end());
  };
  if (is(SlotIpv4(instance, slot)) || is(SlotIpv6(instance, slot))) return slot;
  return std::nullopt;
}

std::string SourceOf(uint32_t instance, std::span<const uint8_t> address) {
  const auto slot = SlotOfAddress(instance, address);
  if (!slot) return {address.begin(), address.end()};
  const Ipv4Bytes own = SlotIpv4(instance, *slot);
  return {own.begin(), own.end()};
}

std::optional<uint32_t> SlotOfIfindex(uint32_t instance, uint32_t ifindex) {
  const uint32_t slot = ifindex & 0xffff;
  if (slot < 1 || slot > kMaxSlot) return std::nullopt;
  if (ifindex != static_cast<uint32_t>(HostIfindex(instance, slot))) return std::nullopt;
  return slot;
}

MacBytes HostMac(uint32_t instance, uint32_t slot) {
  return {0x02, 'a', 't', Low(instance), Low(slot >> 8), Low(slot)};
}

MacBytes InsideMac(uint32_t instance, uint32_t slot) {
  return {0x06, 'a', 't', Low(instance), Low(slot >> 8), Low(slot)};
}

std::string TableName(uint32_t instance) {
  return "atoll" + std::to_string(instance);
}

std::array<std::string, 2> BarrierNames(uint32_t instance) {
  return {TableName(instance) + "_barrier", TableName(instance) + "_barrier2"};
}

std::string LinkPrefix(uint32_t instance) {
  return "atl" + std::to_string(instance) + "-";
}

std::string LinkName(uint32_t instance, uint32_t slot) {
  return LinkPrefix(instance) + std::to_string(slot);
}

std::optional<uint32_t> SlotOfLink(uint32_t instance, std::string_view name) {
  const std::string prefix = LinkPrefix(instance);
  if (name.substr(0, prefix.size()) != prefix) return std::nullopt;
  name.remove_prefix(prefix.size());
  uint32_t slot = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), slot);
  if (error != std::errc() || end != name.data() + name.size() || name.front() == '0') {
    return std::nullopt;
  }
  if (slot < 1 || slot > kMaxSlot) return std::nullopt;
  return slot;
}

int HostIfindex(uint32_t instance, uint32_t slot) {
  return static_cast<int>(10U << 24 | (200 + instance) << 16 | slot);
}

std::string ToString(const Ipv4Bytes& address) {
  char text[INET_ADDRSTRLEN];
  ATOLL_CHECK(::inet_ntop(AF_INET, address.data(), text, sizeof text) != nullptr);
  return text;
}

std::string ToString(const Ipv6Bytes& address) {
  char text[INET6_ADDRSTRLEN];
  ATOLL_CHECK(::inet_ntop(AF_INET6, address.data(), text, sizeof text) != nullptr);
  return text;
}

SlotAddresses AddressesOf(uint32_t instance, uint32_t slot) {
  return SlotAddresses{ToString(SlotIpv4(instance, slot)), ToString(SlotIpv6(instance, slot)),
                       ToString(GatewayIpv4(instance)), ToString(GatewayIpv6(instance))};
}

}  // namespace atl::netpolicy
