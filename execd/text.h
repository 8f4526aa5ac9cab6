// Small things about text that several protocols share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::execd {

// %XX decoded; false if an escape is malformed. '+' is kept.
bool PercentDecode(std::string_view text, std::string* out);
// A query string's name=value pairs, decoded ('+' is a space), in order. A malformed escape stays
// as it is.
std::vector<std::pair<std::string, std::string>> ParseQuery(std::string_view query);
// ASCII, for header names and values.
bool EqualNoCase(std::string_view a, std::string_view b);

}  // namespace atl::execd
