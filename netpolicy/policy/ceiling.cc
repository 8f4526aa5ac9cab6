#include "netpolicy/policy/ceiling.h"

#include <algorithm>
#include <utility>

namespace atl::netpolicy {

Result<std::shared_ptr<const Ceiling>> Ceiling::Make(const std::vector<std::string>& targets) {
  if (targets.size() > kMaxCeilingTargets) {
    return Fail(Code::kInvalidArgument, std::to_string(targets.size()) + " targets; at most " +
                                            std::to_string(kMaxCeilingTargets) + " are taken");
  }
  std::shared_ptr<Ceiling> ceiling(new Ceiling());
  for (const std::string& text : targets) {
    ATOLL_ASSIGN(PolicyTarget target, ParsePolicyTarget(text));
    switch (target.kind) {
      case PolicyTarget::Kind::kName:
        ceiling->exact_.insert(std::move(target.name));
        break;
      case PolicyTarget::Kind::kWildcard:
        ceiling->below_.insert(std::move(target.name));
        break;
      case PolicyTarget::Kind::kPrefix:
        ceiling->prefixes_.push_back(target.prefix);
        break;
    }
    ceiling->text_ += (ceiling->text_.empty() ? "" : ", ") + text;
  }
  return std::shared_ptr<const Ceiling>(std::move(ceiling));
}

// Returns true if a wildcard stands for the name.
bool Ceiling::CoversBelow(std::string_view name) const {
  if (below_.empty()) return false;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (below_.contains(std::string(name.substr(dot + 1)))) return true;
  }
  return false;
}

bool Ceiling::CoversName(std::string_view name) const {
  return exact_.contains(std::string(name)) || CoversBelow(name);
}

bool Ceiling::Covers(const PolicyTarget& target) const {
  switch (target.kind) {
    case PolicyTarget::Kind::kName:
      return CoversName(target.name);
    case PolicyTarget::Kind::kWildcard:
      return below_.contains(target.name) || CoversBelow(target.name);
    case PolicyTarget::Kind::kPrefix:
      return std::any_of(prefixes_.begin(), prefixes_.end(),
                         [&](const IpPrefix& prefix) { return prefix.Contains(target.prefix); });
  }
  return false;
}

Status Ceiling::Check(const Policy& policy) const {
  for (const PolicyRule& rule : policy.rules) {
    if (rule.action == Action::kDeny || Covers(rule.parsed)) continue;
    return Fail(Code::kPermissionDenied,
                "a policy here may not allow '" + Shortened(rule.target, 80) + "'; " +
                    (text_.empty() ? "it may allow nothing" : "it may allow " + text_));
  }
  return {};
}

std::vector<IpPrefix> Ceiling::Clip(const IpPrefix& prefix) const {
  std::vector<IpPrefix> parts;
  for (const IpPrefix& within : prefixes_) {
    // Two prefixes are either disjoint, or one holds the other.
    if (within.Contains(prefix)) return {prefix};
    if (prefix.Contains(within)) parts.push_back(within);
  }
  return parts;
}

}  // namespace atl::netpolicy
