// Derives everything from an instance and a slot number: addresses, MACs, names, interface indices.
// Nothing is looked up or stored, so a restarted daemon knows the values of every slot.
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

// Returns the slot that an address (4 or 16 bytes, network order) belongs to. Empty if it is not
// the address of a slot.
std::optional<uint32_t> SlotOfAddress(uint32_t instance, std::span<const uint8_t> address);

// Returns the key under which limits and DNS views count an address. Both addresses of a slot share
// one key, the bytes of its IPv4 address. Any other address is its own key.
std::string SourceOf(uint32_t instance, std::span<const uint8_t> address);

// MAC addresses of the two ends of a slot's veth pair. Locally administered, unique for each slot.
MacBytes HostMac(uint32_t instance, uint32_t slot);
MacBytes InsideMac(uint32_t instance, uint32_t slot);

// Returns the name of the nftables table, such as "atoll0".
std::string TableName(uint32_t instance);
// Returns the names of the barrier tables, "atoll0_barrier" and "atoll0_barrier2"; see
// rules/barrier.h.
std::array<std::string, 2> BarrierNames(uint32_t instance);
// Returns the prefix of the host interfaces of an instance, such as "atl0-". No other interface of
// the host begins with it.
std::string LinkPrefix(uint32_t instance);
// Returns the name of the host interface of a slot, such as "atl0-7".
std::string LinkName(uint32_t instance, uint32_t slot);
// Parses the name of a host interface. Empty if it is not an interface of this instance.
std::optional<uint32_t> SlotOfLink(uint32_t instance, std::string_view name);

// Returns the interface index of the host end of a slot's link: the slot's IPv4 address as a
// number. The index is chosen here, not by the kernel, so that routes and neighbours can be sent
// without asking for it first. It cannot collide, because the kernel counts its own indices up from
// 1.
int HostIfindex(uint32_t instance, uint32_t slot);
std::optional<uint32_t> SlotOfIfindex(uint32_t instance, uint32_t ifindex);
// Interface index of eth0 in a slot's network namespace. It lies above the fallback tunnels (sit0,
// tunl0, …) that kernels with those modules put into every new namespace.
inline constexpr int kInsideIfindex = 100;
inline constexpr char kInsideLink[] = "eth0";

// The addresses of a slot as text. Slots are numbered 1 … kMaxSlot. Slot s has the addresses
// 10.(200+instance).(s >> 8).(s & 255) and ::s (hexadecimal). The gateway addresses are outside
// that range.
struct SlotAddresses {
  std::string ipv4;          // "10.200.0.7"
  std::string ipv6;          // "fd61:746c:6c00::7"
  std::string gateway_ipv4;  // also the address of the name server
  std::string gateway_ipv6;
};
SlotAddresses AddressesOf(uint32_t instance, uint32_t slot);

std::string ToString(const Ipv4Bytes& address);
std::string ToString(const Ipv6Bytes& address);

}  // namespace atl::netpolicy
