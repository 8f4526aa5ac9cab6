// What somebody may have meant.
#pragma once

#include <string>
#include <vector>

namespace atl {

// Of `known` the one that most likely was meant by `given`: it begins with it, or takes few changes
// of letters. Empty if none is like it.
std::string Nearest(const std::string& given, const std::vector<std::string>& known);

}  // namespace atl
