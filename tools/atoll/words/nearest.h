// Suggests the word that a user may have meant.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/nearest.h"

namespace atl::cli {

// Returns "; did you mean 'NAME'?", or "" if no known word is near.
std::string OfferNearest(const std::string& given, const std::vector<std::string>& known);

}  // namespace atl::cli
