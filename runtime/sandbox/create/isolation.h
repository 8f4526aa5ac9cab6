// The tier of each new sandbox: what its request asks for, within what the operator allows and what
// this host can build.
//
// Thread rule: on the loop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/tier.h"

namespace atl::sandbox {

// Returns the tier that a word of a request or of the configuration means: namespace, gvisor,
// microvm, or one of OpenSandbox's words for the last, kata and firecracker. kInvalidArgument: any
// other word.
Result<std::string> ParseIsolation(std::string_view word);

// Returns true if the wall of tier `a` is weaker than that of tier `b`. Tiers in ascending order:
// namespace, gvisor, microvm.
bool IsWeakerTier(std::string_view a, std::string_view b);

class Isolation {
 public:
  // The operator's rules, by names of tiers.
  struct Policy {
    std::string type{wire::kNamespaceTier};  // tier of requests that ask for none
    std::vector<std::string> allowed;        // tiers that a request may ask for; empty: all
    std::string minimum;                     // no sandbox has a weaker tier; empty: `type`
  };
  // `available`: tiers of slots that the spawner can prepare.
  Isolation(Policy policy, std::vector<std::string> available);

  // kInvalidArgument: the rules contradict each other.
  static Status CheckPolicy(const Policy& policy);
  // kFailedPrecondition: this host cannot build sandboxes of the policy's type. The error names the
  // tier and those that this host can build.
  Status CheckType() const;

  // Call for each new spawner.
  void SetAvailable(std::vector<std::string> tiers) { available_ = std::move(tiers); }

  // Returns the tier for a request. `asked`: a tier, or empty for the operator's default.
  // kPermissionDenied: the operator does not allow it. kUnimplemented: this host cannot build it.
  Result<std::string> Choose(const std::string& asked) const;

  const Policy& policy() const { return policy_; }
  const std::vector<std::string>& available() const { return available_; }

 private:
  const Policy policy_;
  std::vector<std::string> available_;
};

}  // namespace atl::sandbox
