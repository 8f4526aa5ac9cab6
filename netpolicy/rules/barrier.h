// What stands behind the table: a second one that knows no sandbox and no policy, and drops every
// packet from or to a sandbox's link that the first has not passed. Who deletes or flushes the
// first closes the links by it, at once and for as long as it takes to put it back.
//
// The second belongs to the socket that made it, as nftables has it since Linux 5.12: nobody else
// can delete or change it, and `nft flush ruleset` leaves it alone. It goes when the socket is
// closed, so it is there while a daemon is.
//
// Thread rule: pure functions that append to a transaction.
#pragma once

#include <cstdint>

#include "netpolicy/rules/nft.h"

namespace atl::netpolicy {

// Of a packet's mark: the table has passed it. Set there where it accepts, taken back by the
// barrier, so that nobody else sees it; the other bits belong to others.
inline constexpr uint32_t kPassedBit = 1U << 29;

// For a transaction on the table BarrierName(instance). Replaces what the socket has there.
void AddBarrier(NftTransaction& transaction, uint32_t instance);

}  // namespace atl::netpolicy
