// Connection tracking entries of sandboxes that ended. They would outlive them, and the far end can
// keep a UDP flow alive for as long as it likes: it would then speak to the next user of the
// address, from outside, on a port of its choice.
//
// Thread rule: a socket belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/result.h"

namespace atl::netpolicy {

// Deletes every flow that one of `slots` (sorted) began; returns how many there were. `nfnetlink`
// is a NETLINK_NETFILTER socket. The kernel walks its whole table, 15 ms with 262,144 buckets: for
// a pool thread, and for many slots at a time.
Result<size_t> CutFlows(int nfnetlink, uint32_t instance, const std::vector<uint32_t>& slots);

}  // namespace atl::netpolicy
