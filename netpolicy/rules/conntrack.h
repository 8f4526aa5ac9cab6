// Deletes connection tracking entries of sandboxes: those of sandboxes that have ended, and those
// that a new policy does not allow. Without this, an entry would outlive its sandbox. The far end
// can keep a UDP flow alive for as long as it likes, and would then reach the next user of the
// address, from outside, on a port of its choice.
//
// Thread rule: a socket belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>

#include "netpolicy/address/ip.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

// A flow as its originator sent it, before any address translation.
struct Flow {
  uint32_t slot = 0;
  IpAddress destination;
  uint8_t protocol = 0;     // IPPROTO_…
  uint16_t port = 0;        // destination port; 0: the protocol has none
  bool to_gateway = false;  // redirected to our name server or proxy
};

// Deletes every flow that a slot of the instance began and for which `cut` returns true. Returns
// their number. `nfnetlink` is a NETLINK_NETFILTER socket. The kernel walks its whole table, which
// takes 15 ms with 262,144 buckets, so call it on a pool thread and for many slots at a time.
Result<size_t> CutFlows(int nfnetlink, uint32_t instance,
                        const std::function<bool(const Flow&)>& cut);

}  // namespace atl::netpolicy
