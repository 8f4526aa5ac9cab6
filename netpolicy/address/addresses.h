// Everything that follows from an instance and a slot number: addresses, MACs, names, indices.
// Nothing is looked up or remembered, so a daemon that starts again knows them all.
//
// Thread rule: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace atl::netpolicy {

inline constexpr uint32_t kMaxInstance = 7;
inline constexpr uint32_t kMaxSlot = 4095;

using Ipv4Bytes = std::array<uint8_t, 4>;   // network order
using Ipv6Bytes = std::array<uint8_t, 16>;  // network order
using MacBytes = std::array<uint8_t, 6>;

Ipv4Bytes SlotIpv4(uint32_t instance, uint32_t slot);
Ipv6Bytes SlotIpv6(uint32_t instance, uint32_t slot);
Ipv4Bytes GatewayIpv4(uint32_t instance);
Ipv6Bytes GatewayIpv6(uint32_t instance);

// The slot that an address (4 or 16 bytes) belongs to; nothing for any other.
std::optional<uint32_t> SlotOfAddress(uint32_t instance, std::span<const uint8_t> address);

// Who speaks from an address, for limits and views: both addresses of a slot are one source, its
// IPv4 address' bytes. Any other address is its own.
std::string SourceOf(uint32_t instance, std::span<const uint8_t> address);

// Of the two ends of a slot's link. Locally administered, different for every slot.
MacBytes HostMac(uint32_t instance, uint32_t slot);
MacBytes InsideMac(uint32_t instance, uint32_t slot);

// "atoll0"
std::string TableName(uint32_t instance);
// "atoll0_barrier" and "atoll0_barrier2", see rules/barrier.h.
std::array<std::string, 2> BarrierNames(uint32_t instance);
// "atl0-": what all host ends of an instance's links begin with, and nothing else.
std::string LinkPrefix(uint32_t instance);
// "atl0-7"
std::string LinkName(uint32_t instance, uint32_t slot);
// The slot of a link of this instance; nothing for any other name.
std::optional<uint32_t> SlotOfLink(uint32_t instance, std::string_view name);

// The interface index of the host's end, chosen by us (the slot's IPv4 address as a number) so that
// routes and neighbours can be sent without asking for it first. The kernel counts its own indices
// up from 1.
int HostIfindex(uint32_t instance, uint32_t slot);
std::optional<uint32_t> SlotOfIfindex(uint32_t instance, uint32_t ifindex);
// The same for eth0 in the slot's namespace: above the fallback tunnels (sit0, tunl0, …) that a
// kernel with those modules puts into every new namespace.
inline constexpr int kInsideIfindex = 100;
inline constexpr char kInsideLink[] = "eth0";

// Slots are 1 … kMaxSlot. Slot s has 10.(200+instance).(s >> 8).(s & 255) and ::s (in hexadecimal);
// the gateways lie outside of that range.
struct SlotAddresses {
  std::string ipv4;          // "10.200.0.7"
  std::string ipv6;          // "fd61:746c:6c00::7"
  std::string gateway_ipv4;  // also the name server
  std::string gateway_ipv6;
};
SlotAddresses AddressesOf(uint32_t instance, uint32_t slot);

std::string ToString(const Ipv4Bytes& address);
std::string ToString(const Ipv6Bytes& address);

}  // namespace atl::netpolicy
