// A second nftables table that fails closed. It knows no sandbox and no policy. It drops every
// packet from or to a sandbox's link unless the main table has accepted it. If another program
// deletes or flushes the main table, all links are closed at once, until the main table is
// restored.
//
// The barrier belongs to the netlink socket that made it (`flags owner`, Linux 5.12). Nobody else
// can delete or change it, and `nft flush ruleset` skips it. It disappears when the last duplicate
// of the socket is closed. The spawner holds a duplicate, so the barrier also exists while no
// daemon runs. The next daemon makes its own barrier beside it, under the other of two names,
// before it hands over its socket.
//
// Thread rule: pure functions that append to a transaction.
#pragma once

#include <cstdint>

#include "netpolicy/rules/nft.h"

namespace atl::netpolicy {

// Bit of a packet's mark: the main table has accepted the packet. The main table sets it and the
// barrier clears it, so no other program sees it. The other bits of the mark belong to other
// programs.
inline constexpr uint32_t kPassedBit = 1U << 29;

// Appends the barrier to a transaction on one of the tables of BarrierNames(instance).
void AddBarrier(NftTransaction& transaction, uint32_t instance);

}  // namespace atl::netpolicy
