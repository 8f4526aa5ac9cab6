// Texts for clients, without paths of the daemon's own directories: those are the log's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl {

// `text`, with each path in or below one of `directories` replaced by "(a path of the daemon)". A
// path ends at a blank, a quote, a colon, a comma, a semicolon or a closing bracket.
std::string WithoutPaths(std::string_view text, const std::vector<std::string>& directories);

}  // namespace atl
