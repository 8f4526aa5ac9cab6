// The images that the operator allows sandboxes to be created from (`images.allowed`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::images {

// Checks one rule and returns its normal form. A rule is "NAME:TAG", in which '*' stands for any
// characters; "@sha256:…" after it, or alone, pins the digest. "python" allows every tag of python.
// kInvalidArgument: not a rule.
Result<std::string> CheckAllowedRule(const std::string& rule);

// Checks an image against the rules; no rules allow everything. `name` is normalised. An empty
// `digest` means that it is not known yet; then it is enough that a rule matches the name.
// kPermissionDenied: not allowed; the message says what is.
Status CheckAllowed(const std::vector<std::string>& rules, const std::string& name,
                    std::string_view digest);

}  // namespace atl::images
