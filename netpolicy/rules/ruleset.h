// The table of one instance: every rule that stands between a sandbox and the world.
//
// Thread rule: pure functions that append to a transaction.
#pragma once

#include <cstdint>
#include <vector>

#include "netpolicy/address/ip.h"
#include "netpolicy/rules/nft.h"

namespace atl::netpolicy {

// Who may send at all: (link, address, MAC) of the slots.
inline constexpr char kLinkSet4[] = "links4";
inline constexpr char kLinkSet6[] = "links6";

struct RulesetConfig {
  uint32_t instance = 0;
  std::vector<IpPrefix> guarded;  // refused unless a policy names it or a part of it
  uint16_t proxy_port = 0;        // of the splice proxy on the gateway's addresses
  uint16_t log_group = 0;         // nfnetlink_log, for what was refused
  uint32_t max_connections = 0;   // of one sandbox
};

// The whole table; what exists already is kept where it is a set of live sandboxes, and replaced
// where it is a rule or a constant set, all in the same transaction.
void AddRuleset(NftTransaction& transaction, const RulesetConfig& config);
// The same instead of whatever table stands there, elements included.
void AddRulesetAnew(NftTransaction& transaction, const RulesetConfig& config);

// Lets packets of a slot in: from its link, with its addresses and its MAC. Without these elements
// everything that comes out of the link is dropped.
void AddSlotElements(NftTransaction& transaction, uint32_t instance, uint32_t slot);
void DeleteSlotElements(NftTransaction& transaction, uint32_t instance, uint32_t slot);

}  // namespace atl::netpolicy
