// What somebody may have meant, as a part of a message.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/nearest.h"

namespace atl::cli {

// "; did you mean 'NAME'?", or nothing.
std::string OfferNearest(const std::string& given, const std::vector<std::string>& known);

}  // namespace atl::cli
