// Splits a line as a POSIX shell would split it into words: quotes and backslashes, no expansion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl::api {

// False: a quotation or a trailing backslash is not closed.
bool SplitShellWords(std::string_view line, std::vector<std::string>* words);

}  // namespace atl::api
