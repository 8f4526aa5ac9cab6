// The rtnetlink messages for a slot's link, and for the gateway addresses on lo.
//
// Thread rule: the Add functions only append to a batch; the others use the socket of their caller.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "netpolicy/link/netlink.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

inline constexpr int kLoIfindex = 1;  // the same in every network namespace

struct SlotLink {
  uint32_t instance;
  uint32_t slot;
  uint32_t mtu;
  bool ipv6;  // false: the host has IPv6 switched off
};

// Appends the messages for the socket inside the slot's network namespace: the veth pair in one
// message, with eth0 here and its peer in the namespace `host_netns`; then lo, addresses, the
// gateway's neighbour entry and the default routes. Both ends are created with known indices, so
// one send is enough.
void AddInsideMessages(NetlinkBatch& batch, const SlotLink& link, int host_netns);
// Appends the messages for a socket on the host, to be sent afterwards: link up, host routes and
// neighbour entries.
void AddHostMessages(NetlinkBatch& batch, const SlotLink& link);
// Blocks until the link `index` of `socket`'s namespace can send. The veth end that comes up first
// gets its carrier with the other end, and drops what it sends until a work queue has noticed
// (linkwatch). Newer kernels (6.18) do that at once when the link is queried. Linux 6.1 does not;
// there this call waits for the work queue. kUnavailable: not within `limit_us`. `name` is for
// errors.
Status AwaitCarrier(int socket, int index, const std::string& name, int64_t limit_us);

// Append the messages that add the gateway addresses to lo, or remove them.
void AddGatewayMessages(NetlinkBatch& batch, uint32_t instance, bool ipv6);
void AddGatewayRemoval(NetlinkBatch& batch, uint32_t instance, bool ipv6);

void AddLinkDeletion(NetlinkBatch& batch, const std::string& name);
// Deletes many links in one step: moves them into a link group of this instance and deletes the
// group. One by one, each would wait for its own grace periods (15 ms).
Status DeleteLinks(int socket, uint32_t instance, const std::vector<std::string>& names);

// Returns the slots of this instance that have a host link now.
Result<std::vector<uint32_t>> ListSlotLinks(int socket, uint32_t instance);

// Limits the rate of packets that leave a link, with a token bucket (tc-tbf(8)). `socket` is in the
// link's network namespace. Blocks for an RCU grace period.
Status LimitRate(int socket, int index, uint64_t bytes_per_second);

struct LinkCounters {
  uint64_t rx_bytes = 0, tx_bytes = 0;
  uint64_t rx_packets = 0, tx_packets = 0;
};
Result<LinkCounters> ReadLinkCounters(int socket, int index);
// Returns the counters of all slot links of this instance, by slot, with one request.
Result<std::map<uint32_t, LinkCounters>> ReadSlotCounters(int socket, uint32_t instance);

// Returns the MTU of the link of the host's IPv4 (else IPv6) default route, 0 if it has none.
Result<uint32_t> DefaultRouteMtu(int socket);

}  // namespace atl::netpolicy
