// A policy made ready to be enforced: together with the operator's lists, names in a table, and
// addresses as ranges that do not overlap, so that their order no longer matters.
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
#include "netpolicy/policy/policy.h"

namespace atl::netpolicy {

// What the operator says to every sandbox that has a policy.
struct OperatorRules {
  std::vector<PolicyRule> deny_always;   // before everything else
  std::vector<PolicyRule> allow_always;  // before the sandbox's own
};

struct PortKey {
  Transport transport = Transport::kTcp;  // kTcp or kUdp
  uint16_t port = 0;                      // 0: all of the transport

  auto operator<=>(const PortKey&) const = default;
};

// What may be done with a name.
struct NameScope {
  bool any_port = false;
  std::vector<PortKey> ports;  // if not any_port
  // A rule says so, not only the default.
  bool by_rule = false;

  bool allowed() const { return any_port || !ports.empty(); }
  bool Allows(PortKey port) const;
};

// What is to be done with the packets to a range of addresses.
enum class RangeAction : uint8_t {
  kDeny = 1,
  kAllow = 2,  // if it is nothing that the operator guards
  kNamed = 3,  // guarded or not: the rule names one address, or a prefix within a guarded one
};
struct AddressRange {
  IpAddress first;
  IpAddress last;  // included
  RangeAction action = RangeAction::kDeny;

  auto operator<=>(const AddressRange&) const = default;
};

class Egress {
 public:
  // `guarded`: what can only be reached when a rule names it or a part of it. kInvalidArgument:
  // addresses are named with more ports, or come to more ranges, than the limits below.
  static Result<std::shared_ptr<const Egress>> Make(SharedPolicy policy,
                                                    const OperatorRules& operator_rules,
                                                    const std::vector<IpPrefix>& guarded);
  static constexpr size_t kMaxPortClasses = 64;
  static constexpr size_t kMaxRanges = 16384;

  const SharedPolicy& policy() const { return policy_; }
  Action default_action() const { return policy_->default_action; }

  // `name`: lower case, no dot at the end. The operator's lists first, then the policy's rules,
  // then the known DoH resolvers (denied unless a rule has said otherwise), then the default.
  NameScope JudgeName(std::string_view name) const;
  // A rule denies it by name; for the middle of a chain of aliases.
  bool DeniesName(std::string_view name) const;
  // What a rule says about the address; nothing if none does.
  std::optional<RangeAction> JudgeAddress(const IpAddress& address, PortKey port) const;

  // Whether a rule names the address (RangeAction::kNamed), for any port.
  bool NamesAddress(const IpAddress& address) const;

  // True if connections to 80 and 443 have to be judged by the names that they carry: a rule names
  // one.
  bool has_names() const { return !exact_.empty() || !below_.empty(); }

  // For the rules in the kernel: disjoint ranges in rising order, of no port and of each that a
  // rule for addresses names. The ranges of a port hold all that is true for it, those of its
  // transport and the general ones included: who finds nothing there may look further, but finds
  // nothing new.
  using Ranges = std::vector<AddressRange>;
  const Ranges& ranges() const { return ranges_; }
  const std::vector<std::pair<PortKey, Ranges>>& port_ranges() const { return port_ranges_; }

 private:
  Egress() = default;
  // Those whose target is the name or fits it, in order.
  std::vector<uint32_t> RulesFor(std::string_view name) const;

  SharedPolicy policy_;
  std::vector<PolicyRule> rules_;  // all of them in order
  // Rules by name, as rising indices into rules_.
  std::unordered_map<std::string, std::vector<uint32_t>> exact_;
  std::unordered_map<std::string, std::vector<uint32_t>> below_;
  Ranges ranges_;
  std::vector<std::pair<PortKey, Ranges>> port_ranges_;
};

}  // namespace atl::netpolicy
