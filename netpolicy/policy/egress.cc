#include "netpolicy/policy/egress.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "netpolicy/address/known_resolvers.h"
#include "netpolicy/address/ports.h"

namespace atl::netpolicy {
namespace {

constexpr PortKey kNoPort{Transport::kAny, 0};

// Returns true if an address rule applies to all packets of a port class.
bool Covers(const PolicyRule& rule, PortKey key) {
  if (rule.transport != Transport::kAny && rule.transport != key.transport) return false;
  if (rule.ports.empty()) return true;
  return key.port != 0 && std::binary_search(rule.ports.begin(), rule.ports.end(), key.port);
}

std::vector<PortKey> KeysOf(const PolicyRule& rule) {
  std::vector<PortKey> keys;
  for (const Transport transport : {Transport::kTcp, Transport::kUdp}) {
    if (rule.transport != Transport::kAny && rule.transport != transport) continue;
    if (rule.ports.empty()) keys.push_back({transport, 0});
    for (const uint16_t port : rule.ports) keys.push_back({transport, port});
  }
  return keys;
}

bool IsNarrowed(const PolicyRule& rule) {
  return !rule.ports.empty() || rule.transport != Transport::kAny;
}

IpAddress Before(IpAddress address) {
  for (size_t i = address.ipv6 ? 16 : 4; i-- > 0;) {
    if (address.bytes[i]-- != 0) break;
  }
  return address;
}

// A set of disjoint ranges. Where a new range overlaps an older one, the older one stays.
class RangeMap {
 public:
  void Add(const IpPrefix& prefix, RangeAction action) {
    IpAddress first = prefix.first();
    const IpAddress last = prefix.last();
    auto next = ranges_.upper_bound(first);
    if (next != ranges_.begin()) {
      const IpAddress& covered = std::prev(next)->second.last;
      if (covered >= first && !StepPast(covered, last, &first)) return;
    }
    while (next != ranges_.end() && next->first <= last) {
      if (next->first > first)
        ranges_.emplace(first, AddressRange{first, Before(next->first), action});
      if (!StepPast(next->second.last, last, &first)) return;
      ++next;
    }
    ranges_.emplace(first, AddressRange{first, last, action});
  }

  // Returns the ranges, with adjacent ranges of the same action merged.
  std::vector<AddressRange> Take() const {
    std::vector<AddressRange> merged;
    for (const auto& [first, range] : ranges_) {
      if (!merged.empty() && merged.back().action == range.action &&
          merged.back().last.Next() == first) {
        merged.back().last = range.last;
      } else {
        merged.push_back(range);
      }
    }
    return merged;
  }

 private:
  // Moves `first` past `covered`. Returns false if nothing up to `last` is left.
  static bool StepPast(const IpAddress& covered, const IpAddress& last, IpAddress* first) {
    const auto next = covered.Next();
    if (!next || *next > last) return false;
    *first = *next;
    return true;
  }

  std::map<IpAddress, AddressRange> ranges_;
};

RangeAction ActionOf(const PolicyRule& rule, const std::vector<IpPrefix>& guarded) {
  if (rule.action == Action::kDeny) return RangeAction::kDeny;
  const IpPrefix& target = rule.parsed.prefix;
  if (target.first() == target.last()) return RangeAction::kNamed;
  const bool named = std::any_of(guarded.begin(), guarded.end(),
                                 [&](const IpPrefix& prefix) { return prefix.Contains(target); });
  return named ? RangeAction::kNamed : RangeAction::kAllow;
}

// All rules, and how far the ceiling restricts them.
struct Rules {
  const std::vector<PolicyRule>& all;
  const Ceiling* ceiling;  // null: none
  size_t unrestricted;     // number of the first rules, which the ceiling does not restrict
  Action default_action;
};

Egress::Ranges RangesOf(const Rules& rules, PortKey key, const std::vector<IpPrefix>& guarded) {
  RangeMap map;
  for (size_t i = 0; i < rules.all.size(); ++i) {
    const PolicyRule& rule = rules.all[i];
    if (rule.parsed.kind != PolicyTarget::Kind::kPrefix) continue;
    const bool holds = key == kNoPort ? !IsNarrowed(rule) : Covers(rule, key);
    if (!holds) continue;
    // The action follows from the whole prefix, because a part of it may lie within a guarded one
    // that the rule does not name.
    const RangeAction action = ActionOf(rule, guarded);
    const bool restricted =
        rules.ceiling != nullptr && i >= rules.unrestricted && rule.action == Action::kAllow;
    if (!restricted) {
      map.Add(rule.parsed.prefix, action);
      continue;
    }
    for (const IpPrefix& part : rules.ceiling->Clip(rule.parsed.prefix)) map.Add(part, action);
  }
  if (rules.ceiling != nullptr && rules.default_action == Action::kAllow) {
    for (const IpPrefix& prefix : rules.ceiling->prefixes()) map.Add(prefix, RangeAction::kAllow);
  }
  return map.Take();
}

std::vector<PolicyRule> KnownResolverRules() {
  std::vector<PolicyRule> rules;
  const auto deny = [&](const char* target, std::vector<uint16_t> ports) {
    auto parsed = ParsePolicyTarget(target);
    ATOLL_CHECK(parsed);
    rules.push_back({Action::kDeny, target, *std::move(parsed), std::move(ports), Transport::kAny});
  };
  for (const char* name : kKnownResolverNames) deny(name, {});
  for (const char* address : kKnownResolverAddresses) deny(address, {kHttpsPort});
  return rules;
}

const AddressRange* FindRange(const Egress::Ranges& ranges, const IpAddress& address) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), address,
      [](const IpAddress& wanted, const AddressRange& range) { return wanted < range.first; });
  if (after == ranges.begin() || std::prev(after)->last < address) return nullptr;
  return &*std::prev(after);
}

}  // namespace

bool NameScope::Allows(PortKey port) const {
  if (any_port) return true;
  return std::any_of(ports.begin(), ports.end(), [&](const PortKey& key) {
    return key.transport == port.transport && (key.port == 0 || key.port == port.port);
  });
}

Result<std::shared_ptr<const Egress>> Egress::Make(SharedPolicy policy,
                                                   const OperatorRules& operator_rules,
                                                   const std::vector<IpPrefix>& guarded,
                                                   SharedCeiling ceiling) {
  std::shared_ptr<Egress> egress(new Egress());
  std::vector<PolicyRule>& rules = egress->rules_;
  rules = operator_rules.deny_always;
  rules.insert(rules.end(), operator_rules.allow_always.begin(), operator_rules.allow_always.end());
  egress->operator_rules_ = rules.size();
  egress->ceiling_ = std::move(ceiling);
  rules.insert(rules.end(), policy->rules.begin(), policy->rules.end());
  const bool names = std::any_of(rules.begin(), rules.end(), [](const PolicyRule& rule) {
    return rule.parsed.kind != PolicyTarget::Kind::kPrefix;
  });
  if (names && policy->default_action == Action::kAllow) {
    std::vector<PolicyRule> resolvers = KnownResolverRules();
    rules.insert(rules.end(), resolvers.begin(), resolvers.end());
  }
  egress->policy_ = std::move(policy);

  std::set<PortKey> keys;
  for (uint32_t i = 0; i < rules.size(); ++i) {
    const PolicyTarget& target = rules[i].parsed;
    if (target.kind == PolicyTarget::Kind::kName) egress->exact_[target.name].push_back(i);
    if (target.kind == PolicyTarget::Kind::kWildcard) egress->below_[target.name].push_back(i);
    if (target.kind == PolicyTarget::Kind::kPrefix && IsNarrowed(rules[i])) {
      for (const PortKey& key : KeysOf(rules[i])) keys.insert(key);
    }
  }
  if (keys.size() > kMaxPortClasses) {
    return Fail(Code::kInvalidArgument,
                "policy: the rules for addresses name " + std::to_string(keys.size()) +
                    " different ports (tcp and udp count separately); the limit is " +
                    std::to_string(kMaxPortClasses));
  }
  // Each address of a DNS answer is opened at every port that a rule for names lists, so these
  // ports count as classes too.
  std::set<PortKey> name_ports;
  for (const PolicyRule& rule : rules) {
    if (rule.parsed.kind == PolicyTarget::Kind::kPrefix || !IsNarrowed(rule)) continue;
    for (const PortKey& key : KeysOf(rule)) name_ports.insert(key);
  }
  if (name_ports.size() > kMaxPortClasses) {
    return Fail(Code::kInvalidArgument,
                "policy: the rules for names list " + std::to_string(name_ports.size()) +
                    " different ports (tcp and udp count separately); the limit is " +
                    std::to_string(kMaxPortClasses));
  }
  const Rules ordered{rules, egress->ceiling_.get(), egress->operator_rules_,
                      egress->policy_->default_action};
  egress->ranges_ = RangesOf(ordered, kNoPort, guarded);
  size_t total = egress->ranges_.size();
  for (const PortKey& key : keys) {
    egress->port_ranges_.emplace_back(key, RangesOf(ordered, key, guarded));
    total += egress->port_ranges_.back().second.size();
    if (total > kMaxRanges) {
      return Fail(Code::kInvalidArgument, "policy: the addresses and ports result in more than " +
                                              std::to_string(kMaxRanges) +
                                              " ranges; name fewer ports or prefixes");
    }
  }
  return std::shared_ptr<const Egress>(std::move(egress));
}

std::vector<uint32_t> Egress::RulesFor(std::string_view name) const {
  std::vector<uint32_t> found;
  const auto add = [&](const auto& table, std::string_view key) {
    const auto entry = table.find(std::string(key));
    if (entry != table.end()) found.insert(found.end(), entry->second.begin(), entry->second.end());
  };
  add(exact_, name);
  if (!below_.empty()) {
    for (size_t dot = name.find('.'); dot != std::string_view::npos;
         dot = name.find('.', dot + 1)) {
      add(below_, name.substr(dot + 1));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

NameScope Egress::JudgeName(std::string_view name) const {
  NameScope scope;
  const bool within = !ceiling_ || ceiling_->CoversName(name);
  for (const uint32_t index : RulesFor(name)) {
    const PolicyRule& rule = rules_[index];
    scope.by_rule = true;
    if (rule.action == Action::kDeny || (!within && index >= operator_rules_)) return scope;
    if (!IsNarrowed(rule)) {
      scope.any_port = true;
      return scope;
    }
    for (const PortKey& key : KeysOf(rule)) {
      // Several rules may match one name and list the same port.
      if (std::find(scope.ports.begin(), scope.ports.end(), key) == scope.ports.end()) {
        scope.ports.push_back(key);
      }
    }
  }
  scope.any_port = within && policy_->default_action == Action::kAllow;
  return scope;
}

bool Egress::DeniesName(std::string_view name) const {
  const std::vector<uint32_t> rules = RulesFor(name);
  return !rules.empty() && rules_[rules.front()].action == Action::kDeny;
}

bool Egress::NamesAddress(const IpAddress& address) const {
  const auto names = [&](const Ranges& ranges) {
    const AddressRange* range = FindRange(ranges, address);
    return range != nullptr && range->action == RangeAction::kNamed;
  };
  return names(ranges_) || std::any_of(port_ranges_.begin(), port_ranges_.end(),
                                       [&](const auto& port) { return names(port.second); });
}

std::optional<RangeAction> Egress::JudgeAddress(const IpAddress& address, PortKey port) const {
  const auto find = [&](PortKey key) -> const AddressRange* {
    const auto ranges = std::lower_bound(
        port_ranges_.begin(), port_ranges_.end(), key,
        [](const auto& entry, const PortKey& wanted) { return entry.first < wanted; });
    if (ranges == port_ranges_.end() || ranges->first != key) return nullptr;
    return FindRange(ranges->second, address);
  };
  const AddressRange* range = find(port);
  if (range == nullptr) range = find({port.transport, 0});
  if (range == nullptr) range = FindRange(ranges_, address);
  if (range == nullptr) return std::nullopt;
  return range->action;
}

}  // namespace atl::netpolicy
