// Suggestions for misspelt words.
#pragma once

#include <string>
#include <vector>

namespace atl {

// Returns the word of `known` that `given` was most likely meant to be: it has `given` as a prefix,
// or differs in few letters. Empty if none is similar.
std::string Nearest(const std::string& given, const std::vector<std::string>& known);

}  // namespace atl
