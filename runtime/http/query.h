// Decodes escapes and queries of request targets. Shared by the daemon and execd, which must not
// decode them differently.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::http {

// Decodes %XX. Returns false for a malformed escape. '+' stays '+'.
bool PercentDecode(std::string_view text, std::string* out);
// Returns the name=value pairs in order, both decoded ('+' becomes a space). Malformed escapes are
// kept.
std::vector<std::pair<std::string, std::string>> ParseQuery(std::string_view query);

}  // namespace atl::http
