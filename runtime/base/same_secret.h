// Comparison of secrets.
//
// Thread rule: pure function.
#pragma once

#include <string_view>

namespace atl {

// Returns true if the texts are equal. The time taken does not depend on where they differ.
bool SameSecret(std::string_view given, std::string_view expected);

}  // namespace atl
