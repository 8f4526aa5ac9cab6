// The ceiling of a tenant: the targets that the policies of its sandboxes may allow. An Egress that
// is made with a ceiling allows nothing outside it (egress.h), whatever the sandbox's policy says
// and even if it has none.
//
// Immutable after Make. Thread rule: any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "netpolicy/address/ip.h"
#include "netpolicy/policy/policy.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

inline constexpr size_t kMaxCeilingTargets = 256;

class Ceiling {
 public:
  // Makes a ceiling of targets (ParsePolicyTarget). No target: nothing may be allowed.
  // kInvalidArgument names the text that is no target, or says that there are too many.
  static Result<std::shared_ptr<const Ceiling>> Make(const std::vector<std::string>& targets);

  // Returns true if a target names `name` (lower case, no trailing dot) or is a wildcard above it.
  bool CoversName(std::string_view name) const;
  // Returns true if everything that `target` stands for is within one target of the ceiling.
  bool Covers(const PolicyTarget& target) const;
  // kPermissionDenied: a rule of the policy allows more than the ceiling; the message names the
  // rule and lists the ceiling. A default of "allow" is no error, because it allows what the
  // ceiling leaves.
  Status Check(const Policy& policy) const;

  // Returns the part of `prefix` within each prefix of the ceiling.
  std::vector<IpPrefix> Clip(const IpPrefix& prefix) const;
  const std::vector<IpPrefix>& prefixes() const { return prefixes_; }
  bool has_names() const { return !exact_.empty() || !below_.empty(); }

 private:
  Ceiling() = default;
  bool CoversBelow(std::string_view name) const;

  std::string text_;  // its targets, as messages list them
  std::unordered_set<std::string> exact_;
  std::unordered_set<std::string> below_;  // names of the wildcards
  std::vector<IpPrefix> prefixes_;
};

using SharedCeiling = std::shared_ptr<const Ceiling>;
// Returns the ceiling of a tenant's sandboxes; null: none.
using CeilingOf = std::function<SharedCeiling(const std::string& tenant)>;

}  // namespace atl::netpolicy
