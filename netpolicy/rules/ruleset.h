// The nftables table of one instance, with every rule between sandboxes and the rest of the world.
//
// Thread rule: pure functions that append to a transaction.
#pragma once

#include <cstdint>
#include <vector>

#include "netpolicy/address/ip.h"
#include "netpolicy/rules/nft.h"

namespace atl::netpolicy {

// Allowed senders: (link, address, MAC) of each slot.
inline constexpr char kLinkSet4[] = "links4";
inline constexpr char kLinkSet6[] = "links6";

struct RulesetConfig {
  uint32_t instance = 0;
  // refused unless a policy names the address or a part of the prefix
  std::vector<IpPrefix> guarded;
  uint16_t proxy_port = 0;       // port of the splice proxy on the gateway's addresses
  uint16_t log_group = 0;        // nfnetlink_log group for refused packets
  uint32_t max_connections = 0;  // limit of one sandbox
};

// Appends the whole table. In an existing table, the sets of live sandboxes are kept, and rules and
// constant sets are replaced, all in the same transaction.
void AddRuleset(NftTransaction& transaction, const RulesetConfig& config);
// Like AddRuleset, but deletes an existing table with its elements first.
void AddRulesetAnew(NftTransaction& transaction, const RulesetConfig& config);

// Let packets of a slot pass: from its link, with its addresses and MAC. Without these elements
// everything that comes from the link is dropped.
void AddSlotElements(NftTransaction& transaction, uint32_t instance, uint32_t slot);
void DeleteSlotElements(NftTransaction& transaction, uint32_t instance, uint32_t slot);

}  // namespace atl::netpolicy
