// Policies as JSON: what clients send, what they are shown, and what the store keeps.
//
//   {"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.example.com"},
//     {"action": "allow", "target": "192.0.2.0/24", "ports": [22, 443], "protocol": "tcp"}]}
//
// The text is hostile. Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/policy/policy.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

// kInvalidArgument: what is wrong and where ("egress[3].target: …"). kResourceExhausted: more than
// kMaxPolicyRules rules. `{}` and `null` deny everything; members that are not ours are refused.
Result<Policy> ParsePolicy(std::string_view json);
// A non-empty array of rules, as PATCH has it.
Result<std::vector<PolicyRule>> ParsePolicyRules(std::string_view json);
// An array of targets, as DELETE has it.
Result<std::vector<std::string>> ParsePolicyTargets(std::string_view json);

std::string PolicyToJson(const Policy& policy);
// "deny_all", "allow_all" or "enforcing".
const char* ModeOf(const Policy& policy);

}  // namespace atl::netpolicy
