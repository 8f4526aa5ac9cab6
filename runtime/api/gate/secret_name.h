// Recognises names of secrets (environment variables, members of a request), whose values answers
// do not show.
#pragma once

#include <string_view>

namespace atl::api {

// The text shown instead of a secret value.
inline constexpr char kHidden[] = "***";

// Returns true if the name contains SECRET, TOKEN, PASSWORD or KEY, in any case.
bool IsSecretName(std::string_view name);

}  // namespace atl::api
