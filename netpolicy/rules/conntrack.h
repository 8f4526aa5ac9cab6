// Connection tracking entries of sandboxes that have to go: those of sandboxes that ended, and
// those that a new policy does not allow. The former would outlive them, and the far end can keep a
// UDP flow alive for as long as it likes: it would then speak to the next user of the address, from
// outside, on a port of its choice.
//
// Thread rule: a socket belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>

#include "netpolicy/address/ip.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

// As its beginner meant it, before any translation.
struct Flow {
  uint32_t slot = 0;
  IpAddress destination;
  uint8_t protocol = 0;     // IPPROTO_…
  uint16_t port = 0;        // 0: the protocol has none
  bool to_gateway = false;  // was sent to our name server or proxy instead
};

// Deletes every flow that a slot of the instance began and that `cut` says; returns how many there
// were. `nfnetlink` is a NETLINK_NETFILTER socket. The kernel walks its whole table, 15 ms with
// 262,144 buckets: for a pool thread, and for many slots at a time.
Result<size_t> CutFlows(int nfnetlink, uint32_t instance,
                        const std::function<bool(const Flow&)>& cut);

}  // namespace atl::netpolicy
