// rtnetlink messages of one link: addresses, neighbours, routes. `label` names the request in
// errors. Addresses have 4 bytes (IPv4) or 16 (IPv6), in network order.
//
// Thread rule: stateless.
#pragma once

#include <linux/rtnetlink.h>

#include <cstdint>
#include <span>
#include <string>

#include "netpolicy/link/netlink.h"

namespace atl::netpolicy {

// Neighbour entries are permanent, and the host must not answer a sandbox's ARP requests for
// addresses that it has on other links.
inline constexpr unsigned kBirthFlags = 0x80;  // IFF_NOARP

ifinfomsg LinkHeader(int index, unsigned flags, unsigned change);

// Prevents a link-local address. It would cost duplicate address detection, router solicitations
// and multicast reports for each sandbox, and the rules drop every packet from it anyway.
void AddNoLinkLocal(NetlinkBatch& batch, int index, const std::string& name);
void AddLinkUp(NetlinkBatch& batch, int index, const std::string& name);
// `type`: RTM_NEWADDR or RTM_DELADDR. The address is alone in its network (/32, /128).
void AddAddress(NetlinkBatch& batch, uint16_t type, int index, std::span<const uint8_t> address,
                const std::string& label);
void AddNeighbour(NetlinkBatch& batch, int index, std::span<const uint8_t> address,
                  std::span<const uint8_t> mac, const std::string& label);
// The gateway need not be in a network of the link.
void AddDefaultRoute(NetlinkBatch& batch, int index, std::span<const uint8_t> gateway,
                     const std::string& label);
void AddHostRoute(NetlinkBatch& batch, int index, std::span<const uint8_t> address,
                  const std::string& label);
// Adds the local route of an IPv6 address. The kernel adds the address at once, but the route that
// makes it receive from a work queue (addrconf_dad_work, even with nodad). On a busy machine the
// first answers would be lost. Both routes go with the link.
void AddLocalRoute(NetlinkBatch& batch, uint16_t type, int index, std::span<const uint8_t> address,
                   const std::string& label);

}  // namespace atl::netpolicy
