// The rtnetlink messages of one slot's link, and of the gateway addresses on lo.
//
// Thread rule: the Add functions only append to a batch; the others use the socket of their caller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netpolicy/link/netlink.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

inline constexpr int kLoIfindex = 1;  // in every namespace since it exists

struct SlotLink {
  uint32_t instance;
  uint32_t slot;
  uint32_t mtu;
  bool ipv6;  // false: the host has IPv6 switched off
};

// For the socket inside the slot's namespace: the veth pair in one message, eth0 here and its peer
// in the namespace `host_netns`; then lo, addresses, the gateway's neighbour entry and the default
// routes. Both ends are born with a known index, so that one send does it all.
void AddInsideMessages(NetlinkBatch& batch, const SlotLink& link, int host_netns);
// For a socket on the host, after the other: link up, the host routes and the neighbour entries.
void AddHostMessages(NetlinkBatch& batch, const SlotLink& link);
// Returns when the link that `socket`'s namespace knows by `index` is able to send. Of two veth
// ends the one that came up first gets its carrier when the other does, and drops what it sends
// until a work queue has noticed (linkwatch). Newer kernels (6.18) see to that at once when they
// are asked for the link; 6.1 does not: there this waits for the work queue, at most `limit_us`,
// then kUnavailable. `name` is for errors.
Status AwaitCarrier(int socket, int index, const std::string& name, int64_t limit_us);

// Adds (or removes) the gateway addresses on lo.
void AddGatewayMessages(NetlinkBatch& batch, uint32_t instance, bool ipv6);
void AddGatewayRemoval(NetlinkBatch& batch, uint32_t instance, bool ipv6);

void AddLinkDeletion(NetlinkBatch& batch, const std::string& name);
// Deletes many links in one go: they are moved into a link group of the instance's own, the group
// is deleted. One by one each would wait for its own grace periods (15 ms).
Status DeleteLinks(int socket, uint32_t instance, const std::vector<std::string>& names);

// The slots of this instance that have a host link now.
Result<std::vector<uint32_t>> ListSlotLinks(int socket, uint32_t instance);

// Shapes what leaves a link: a token bucket of the rate (tc-tbf(8)). `socket` is in the link's
// namespace. Waits for an RCU grace period.
Status LimitRate(int socket, int index, uint64_t bytes_per_second);

struct LinkCounters {
  uint64_t rx_bytes = 0, tx_bytes = 0;
  uint64_t rx_packets = 0, tx_packets = 0;
};
Result<LinkCounters> ReadLinkCounters(int socket, int index);

// The MTU of the link that the host's IPv4 (else IPv6) default route leads to, 0 if there is none.
Result<uint32_t> DefaultRouteMtu(int socket);

}  // namespace atl::netpolicy
