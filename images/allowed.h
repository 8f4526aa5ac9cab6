// Which images an operator lets sandboxes be made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::images {

// One rule: "NAME:TAG", where a star stands for any characters; "@sha256:…" behind it, or alone,
// pins the digest. "python" is any of its tags. kInvalidArgument: it is none.
Result<std::string> CheckAllowedRule(const std::string& rule);

// No rules: everything is allowed. `name` is normalised; `digest` empty: not known yet, and then a
// rule that its name fits is enough. kPermissionDenied says what is allowed.
Status CheckAllowed(const std::vector<std::string>& rules, const std::string& name,
                    std::string_view digest);

}  // namespace atl::images
