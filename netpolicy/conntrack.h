// Connection tracking entries of a sandbox that ends. They would outlive it (a TCP flow by days)
// and let the far end of an old flow speak to the next user of the address.
//
// Thread rule: a socket belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/result.h"

namespace atl::netpolicy {

// Deletes every flow that `source` (4 or 16 bytes) began. `nfnetlink` is a NETLINK_NETFILTER
// socket. The kernel walks its whole table for it (0.3 to 3 ms): not for a request's path.
// Returns how many there were.
Result<size_t> CutFlows(int nfnetlink, std::span<const uint8_t> source);

}  // namespace atl::netpolicy
