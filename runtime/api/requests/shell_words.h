// Splits a line into words as a POSIX shell does: quotes and backslashes, no expansion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl::api {

// Returns false for an unterminated quotation or a trailing backslash.
bool SplitShellWords(std::string_view line, std::vector<std::string>* words);

}  // namespace atl::api
