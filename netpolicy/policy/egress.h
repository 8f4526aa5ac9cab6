// A policy compiled for enforcement, together with the operator's lists. Names are in a hash table.
// Addresses are disjoint ranges, so the order of the rules no longer matters.
//
// Immutable after Make. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "netpolicy/address/ip.h"
#include "netpolicy/policy/ceiling.h"
#include "netpolicy/policy/policy.h"

namespace atl::netpolicy {

// Rules of the operator for every sandbox that has a policy.
struct OperatorRules {
  std::vector<PolicyRule> deny_always;   // decide before all other rules
  std::vector<PolicyRule> allow_always;  // decide before the sandbox's own rules
};

struct PortKey {
  Transport transport = Transport::kTcp;  // kTcp or kUdp
  uint16_t port = 0;                      // 0: all ports of the transport

  auto operator<=>(const PortKey&) const = default;
};

// The ports at which a name may be used.
struct NameScope {
  bool any_port = false;
  std::vector<PortKey> ports;  // used if any_port is false
  // True if a rule decided, false if only the default did.
  bool by_rule = false;

  bool allowed() const { return any_port || !ports.empty(); }
  bool Allows(PortKey port) const;
};

// The verdict for packets to a range of addresses.
enum class RangeAction : uint8_t {
  kDeny = 1,
  kAllow = 2,  // except for guarded addresses
  kNamed = 3,  // guarded or not: the rule names a single address, or a prefix within a guarded one
};
struct AddressRange {
  IpAddress first;
  IpAddress last;  // inclusive
  RangeAction action = RangeAction::kDeny;

  auto operator<=>(const AddressRange&) const = default;
};

class Egress {
 public:
  // Compiles `policy`. `guarded` lists prefixes that can only be reached if a rule names them or a
  // part of them. With a `ceiling`, the policy's rules and its default allow only what the ceiling
  // covers; the operator's rules are not restricted. kInvalidArgument: the rules use more port
  // classes, or result in more ranges, than the limits below.
  static Result<std::shared_ptr<const Egress>> Make(SharedPolicy policy,
                                                    const OperatorRules& operator_rules,
                                                    const std::vector<IpPrefix>& guarded,
                                                    SharedCeiling ceiling);
  static constexpr size_t kMaxPortClasses = 64;
  static constexpr size_t kMaxRanges = 16384;

  const SharedPolicy& policy() const { return policy_; }
  const SharedCeiling& ceiling() const { return ceiling_; }
  // Returns the action for everything that no rule and no allowed name decides. Under a ceiling it
  // is kDeny: a policy that allows by default allows the targets of the ceiling.
  Action default_action() const { return ceiling_ ? Action::kDeny : policy_->default_action; }

  // Returns the ports at which `name` (lower case, no trailing dot) may be used. The operator's
  // lists decide first, then the policy's rules, then the known DoH resolvers (denied unless a rule
  // names them), then the default.
  NameScope JudgeName(std::string_view name) const;
  // Returns true if a rule denies the name. Used for the intermediate names of a chain of aliases.
  bool DeniesName(std::string_view name) const;
  // Returns the verdict of the rules on the address. Empty if no rule covers it.
  std::optional<RangeAction> JudgeAddress(const IpAddress& address, PortKey port) const;

  // Returns true if a rule names the address (RangeAction::kNamed), for any port.
  bool NamesAddress(const IpAddress& address) const;

  // Returns true if a rule or the ceiling names a name. Then connections to ports 80 and 443 are
  // judged by the name that they carry.
  bool has_names() const {
    return !exact_.empty() || !below_.empty() || (ceiling_ && ceiling_->has_names());
  }

  // Ranges for the rules in the kernel: disjoint and ascending. `ranges` is for packets of any
  // port, `port_ranges` has one list for each port that an address rule names. The list of a port
  // already includes the verdicts for its transport and the general ones, so a packet that matches
  // nothing there matches nothing in the other lists either.
  using Ranges = std::vector<AddressRange>;
  const Ranges& ranges() const { return ranges_; }
  const std::vector<std::pair<PortKey, Ranges>>& port_ranges() const { return port_ranges_; }

 private:
  Egress() = default;
  // Returns, in order, the rules whose target is the name or a wildcard that matches it.
  std::vector<uint32_t> RulesFor(std::string_view name) const;

  SharedPolicy policy_;
  SharedCeiling ceiling_;          // null: none
  std::vector<PolicyRule> rules_;  // all rules in order of precedence
  size_t operator_rules_ = 0;      // number of the operator's rules, which come first
  // Rules by name, as ascending indices into rules_.
  std::unordered_map<std::string, std::vector<uint32_t>> exact_;
  std::unordered_map<std::string, std::vector<uint32_t>> below_;
  Ranges ranges_;
  std::vector<std::pair<PortKey, Ranges>> port_ranges_;
};

}  // namespace atl::netpolicy
