// The sets in which a slot's policy stands in the kernel, keyed by its link, so that a slot costs
// elements and no rule.
//
// Thread rule: pure functions that append to a transaction.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "netpolicy/policy/egress.h"
#include "netpolicy/rules/nft.h"

namespace atl::netpolicy {

// Links with a policy; of these, those that allow by default, and those whose connections to 80 and
// 443 are judged by the names that they carry.
inline constexpr char kPolicedSet[] = "policed";
inline constexpr char kByDefaultSet[] = "by_default";
inline constexpr char kProxiedSet[] = "proxied";
// (link, address) → RangeAction, and with a port (link, protocol, port, address). What rules say of
// one address stands in hash tables, what they say of ranges in trees: Linux 6.18 goes through the
// whole of a tree in each transaction that changes it.
inline constexpr char kAddressMap4[] = "addresses4";
inline constexpr char kAddressMap6[] = "addresses6";
inline constexpr char kPortMap4[] = "ports4";
inline constexpr char kPortMap6[] = "ports6";
inline constexpr char kAddressRangeMap4[] = "address_ranges4";
inline constexpr char kAddressRangeMap6[] = "address_ranges6";
inline constexpr char kPortRangeMap4[] = "port_ranges4";
inline constexpr char kPortRangeMap6[] = "port_ranges6";
// What names have led to: (link, address), and with a port. They expire.
inline constexpr char kLearnedSet4[] = "learned4";
inline constexpr char kLearnedSet6[] = "learned6";
inline constexpr char kLearnedPortSet4[] = "learned_ports4";
inline constexpr char kLearnedPortSet6[] = "learned_ports6";
// Link → number of its named network; (number, address) of the members.
inline constexpr char kNetworkMap[] = "networks";
inline constexpr char kMemberSet4[] = "members4";
inline constexpr char kMemberSet6[] = "members6";
// Links, with a count of what they were refused.
inline constexpr char kDeniedSet[] = "denied";
// Kept by rules: how often a link's refusals are logged, and its connections.
inline constexpr char kLogRateSet[] = "log_rate";
inline constexpr char kFlowRateSet[] = "flow_rate";
inline constexpr char kGatewayFlowRateSet[] = "gateway_flow_rate";
inline constexpr char kConnectionSet[] = "connections";

void AddPolicySets(NftTransaction& transaction);

// From one policy to another, null being none: no element that both have is touched.
void ChangePolicyElements(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                          const Egress* before, const Egress* after);
// The same from none, in parts: the flags are the sets of links, the ranges those of addresses.
void AddPolicyFlags(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                    const Egress* egress);
void AddPolicyRanges(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                     const Egress* egress);
// Its membership in the named network of that number.
void AddMember(NftTransaction& transaction, uint32_t instance, uint32_t slot, uint32_t network);
void DeleteMember(NftTransaction& transaction, uint32_t instance, uint32_t slot, uint32_t network);
// For the count of refusals; from attach to detach.
void AddDeniedElement(NftTransaction& transaction, uint32_t instance, uint32_t slot);
void DeleteDeniedElement(NftTransaction& transaction, uint32_t instance, uint32_t slot);

// One address that a name has led a slot to.
struct LearnedKey {
  IpAddress address;
  std::optional<PortKey> port;  // none: all ports

  auto operator<=>(const LearnedKey&) const = default;
};
void AddLearned(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                const LearnedKey& key, uint32_t timeout_seconds);
void DeleteLearned(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                   const LearnedKey& key);

// What the sets hold of all slots, with the time that each has left.
Status ListLearned(
    int nfnetlink, uint32_t instance,
    const std::function<void(uint32_t slot, const LearnedKey& key, int64_t left_us)>& on_element);
// How many packets of each attached slot the rules have refused.
Status ListDenied(int nfnetlink, uint32_t instance,
                  const std::function<void(uint32_t slot, uint64_t packets)>& on_slot);

// All that the sets hold of any slot, apart from what was learned and counted.
void FlushPolicySets(NftTransaction& transaction);

}  // namespace atl::netpolicy
