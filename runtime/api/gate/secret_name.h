// Which names speak of something that answers do not show: variables, members of a request.
#pragma once

#include <string_view>

namespace atl::api {

// In place of the value.
inline constexpr char kHidden[] = "***";

// SECRET, TOKEN, PASSWORD or KEY in it, in capitals or not.
bool IsSecretName(std::string_view name);

}  // namespace atl::api
