// The sets that hold a slot's policy in the kernel. Their keys begin with the slot's link, so a
// slot costs elements and no rule.
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

// Links with a policy; those of them that allow by default; and those whose connections to 80 and
// 443 are judged by the names that they carry.
inline constexpr char kPolicedSet[] = "policed";
inline constexpr char kByDefaultSet[] = "by_default";
inline constexpr char kProxiedSet[] = "proxied";
// Maps (link, address) → RangeAction, and with a port (link, protocol, port, address) →
// RangeAction. Verdicts on single addresses are in hash tables, those on ranges in trees, because
// Linux 6.18 walks a whole tree in each transaction that changes it.
inline constexpr char kAddressMap4[] = "addresses4";
inline constexpr char kAddressMap6[] = "addresses6";
inline constexpr char kPortMap4[] = "ports4";
inline constexpr char kPortMap6[] = "ports6";
inline constexpr char kAddressRangeMap4[] = "address_ranges4";
inline constexpr char kAddressRangeMap6[] = "address_ranges6";
inline constexpr char kPortRangeMap4[] = "port_ranges4";
inline constexpr char kPortRangeMap6[] = "port_ranges6";
// Addresses that names have opened: (link, address), and with a port. They expire.
inline constexpr char kLearnedSet4[] = "learned4";
inline constexpr char kLearnedSet6[] = "learned6";
inline constexpr char kLearnedPortSet4[] = "learned_ports4";
inline constexpr char kLearnedPortSet6[] = "learned_ports6";
// Link → number of its named network; (number, address) of the members.
inline constexpr char kNetworkMap[] = "networks";
inline constexpr char kMemberSet4[] = "members4";
inline constexpr char kMemberSet6[] = "members6";
// Links, each with a counter of refused packets.
inline constexpr char kDeniedSet[] = "denied";
// State of rules: the rate of logged refusals per link, and its connections.
inline constexpr char kLogRateSet[] = "log_rate";
inline constexpr char kFlowRateSet[] = "flow_rate";
inline constexpr char kGatewayFlowRateSet[] = "gateway_flow_rate";
inline constexpr char kConnectionSet[] = "connections";

void AddPolicySets(NftTransaction& transaction);

// Changes the elements from one policy to another. Null means no policy. Elements that both have
// are not touched.
void ChangePolicyElements(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                          const Egress* before, const Egress* after);
// Add the elements of a policy in two parts: the sets of links, and the ranges of addresses.
void AddPolicyFlags(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                    const Egress* egress);
void AddPolicyRanges(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                     const Egress* egress);
// Add or remove the slot in the named network of that number.
void AddMember(NftTransaction& transaction, uint32_t instance, uint32_t slot, uint32_t network);
void DeleteMember(NftTransaction& transaction, uint32_t instance, uint32_t slot, uint32_t network);
// Add or remove the counter of refused packets, which exists from attach to detach.
void AddDeniedElement(NftTransaction& transaction, uint32_t instance, uint32_t slot);
void DeleteDeniedElement(NftTransaction& transaction, uint32_t instance, uint32_t slot);

// An address that a name has opened for a slot.
struct LearnedKey {
  IpAddress address;
  std::optional<PortKey> port;  // empty: all ports

  auto operator<=>(const LearnedKey&) const = default;
};
void AddLearned(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                const LearnedKey& key, uint32_t timeout_seconds);
void DeleteLearned(NftTransaction& transaction, uint32_t instance, uint32_t slot,
                   const LearnedKey& key);

// Lists the learned addresses of all slots, each with the time that it has left.
Status ListLearned(
    int nfnetlink, uint32_t instance,
    const std::function<void(uint32_t slot, const LearnedKey& key, int64_t left_us)>& on_element);
// Lists the number of refused packets of each attached slot.
Status ListDenied(int nfnetlink, uint32_t instance,
                  const std::function<void(uint32_t slot, uint64_t packets)>& on_slot);

// Removes all elements of all slots, except learned addresses and counters.
void FlushPolicySets(NftTransaction& transaction);

}  // namespace atl::netpolicy
