// What stands behind the table: a second one that knows no sandbox and no policy, and drops every
// packet from or to a sandbox's link that the first has not passed. Who deletes or flushes the
// first closes the links by it, at once and for as long as it takes to put it back.
//
// The second belongs to the socket that made it, as nftables has it since Linux 5.12: nobody else
// can delete or change it, and `nft flush ruleset` leaves it alone. It goes when the last duplicate
// of the socket is closed. The spawner holds one, so it is there while no daemon is, too. The next
// daemon makes its own beside it, under the other of two names, before it hands over its socket.
//
// Thread rule: pure functions that append to a transaction.
#pragma once

#include <cstdint>

#include "netpolicy/rules/nft.h"

namespace atl::netpolicy {

// Of a packet's mark: the table has passed it. Set there where it accepts, taken back by the
// barrier, so that nobody else sees it; the other bits belong to others.
inline constexpr uint32_t kPassedBit = 1U << 29;

// For a transaction on one of the tables BarrierNames(instance).
void AddBarrier(NftTransaction& transaction, uint32_t instance);

}  // namespace atl::netpolicy
