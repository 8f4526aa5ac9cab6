#include "runtime/sandbox/create/isolation.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace atl::sandbox {
namespace {

// Ascending strength.
constexpr std::string_view kTiers[] = {wire::kNamespaceTier, "gvisor", "microvm"};

struct Word {
  std::string_view word;
  std::string_view tier;
};
// OpenSandbox's runtimes that run a sandbox in a virtual machine.
constexpr Word kSynonyms[] = {{"kata", "microvm"}, {"firecracker", "microvm"}};

size_t StrengthOf(std::string_view tier) {
  return static_cast<size_t>(std::find(std::begin(kTiers), std::end(kTiers), tier) -
                             std::begin(kTiers));
}

bool Has(const std::vector<std::string>& tiers, const std::string& tier) {
  return std::find(tiers.begin(), tiers.end(), tier) != tiers.end();
}

std::string Listed(const std::vector<std::string>& tiers) {
  std::string text;
  for (const std::string& tier : tiers) text += (text.empty() ? "" : ", ") + tier;
  return text.empty() ? "none" : text;
}

}  // namespace

Result<std::string> ParseIsolation(std::string_view word) {
  for (const Word& synonym : kSynonyms) {
    if (word == synonym.word) word = synonym.tier;
  }
  if (StrengthOf(word) < std::size(kTiers)) return std::string(word);
  return Fail(Code::kInvalidArgument,
              "'" + std::string(word.substr(0, 40)) + "': use namespace, gvisor or microvm");
}

bool IsWeakerTier(std::string_view a, std::string_view b) {
  return StrengthOf(a) < StrengthOf(b);
}

Isolation::Isolation(Policy policy, std::vector<std::string> available)
    : policy_([&policy] {
        if (policy.minimum.empty()) policy.minimum = policy.type;
        return std::move(policy);
      }()),
      available_(std::move(available)) {}

Status Isolation::CheckPolicy(const Policy& policy) {
  if (!policy.minimum.empty() && IsWeakerTier(policy.type, policy.minimum)) {
    return Fail(Code::kInvalidArgument, "secure_runtime.type is " + policy.type +
                                            ", which is weaker than secure_runtime.minimum, " +
                                            policy.minimum);
  }
  if (!policy.allowed.empty() && !Has(policy.allowed, policy.type)) {
    return Fail(Code::kInvalidArgument, "secure_runtime.allow does not hold secure_runtime.type, " +
                                            policy.type + ": add it");
  }
  return {};
}

Status Isolation::CheckType() const {
  if (Has(available_, policy_.type)) return {};
  return Fail(Code::kFailedPrecondition,
              "secure_runtime.type: this host cannot build sandboxes with isolation " +
                  policy_.type + ", only with: " + Listed(available_) +
                  "; set secure_runtime.type to one of these. If the configuration names what it "
                  "needs, restart the spawner, which reads secure_runtime when it starts");
}

Result<std::string> Isolation::Choose(const std::string& asked) const {
  const std::string& tier = asked.empty() ? policy_.type : asked;
  if (IsWeakerTier(tier, policy_.minimum)) {
    return Fail(
        Code::kPermissionDenied,
        "isolation " + tier + " is weaker than this server allows: at least " + policy_.minimum);
  }
  if (!policy_.allowed.empty() && !Has(policy_.allowed, tier)) {
    return Fail(Code::kPermissionDenied,
                "isolation " + tier + " is not allowed by this server: " + Listed(policy_.allowed));
  }
  if (!Has(available_, tier)) {
    return Fail(
        Code::kUnimplemented,
        "isolation " + tier + " is not available on this host, only: " + Listed(available_));
  }
  return tier;
}

}  // namespace atl::sandbox
