// Removes paths of the daemon's own directories from texts for clients. Only the log shows those
// paths.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl {

// Returns `text` with each path in or below one of `directories` replaced by "(a path of the
// daemon)". A path ends at a blank, a quote, a colon, a comma, a semicolon or a closing bracket.
std::string WithoutPaths(std::string_view text, const std::vector<std::string>& directories);

}  // namespace atl
