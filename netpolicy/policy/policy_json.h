// Policies as JSON: the form of requests, of answers, and of the store.
//
//   {"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.example.com"},
//     {"action": "allow", "target": "192.0.2.0/24", "ports": [22, 443], "protocol": "tcp"}]}
//
// The input is hostile. Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/policy/policy.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

// Parses a policy. `{}` and `null` deny everything; unknown members are refused. kInvalidArgument:
// says what is wrong and where ("egress[3].target: …"). kResourceExhausted: more than
// kMaxPolicyRules rules.
Result<Policy> ParsePolicy(std::string_view json);
// Parses the body of a PATCH: a non-empty array of rules.
Result<std::vector<PolicyRule>> ParsePolicyRules(std::string_view json);
// Parses the body of a DELETE: an array of targets.
Result<std::vector<std::string>> ParsePolicyTargets(std::string_view json);

std::string PolicyToJson(const Policy& policy);
// Returns "deny_all", "allow_all" or "enforcing".
const char* ModeOf(const Policy& policy);

}  // namespace atl::netpolicy
