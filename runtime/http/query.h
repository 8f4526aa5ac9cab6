// The text of a request's target: escapes and queries. Shared by the daemon and execd, which must
// not read one differently from the other.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::http {

// %XX decoded; false for a malformed escape. '+' stays '+'.
bool PercentDecode(std::string_view text, std::string* out);
// name=value pairs in order, both decoded ('+' is a space here). A malformed escape stays as it is.
std::vector<std::pair<std::string, std::string>> ParseQuery(std::string_view query);

}  // namespace atl::http
