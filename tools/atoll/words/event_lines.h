// Splits a sandbox's event stream into lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace atl::cli {

// Appends `bytes` to `pending` and passes each complete line that is not empty to `take`, without
// its newline. If `take` returns false, stops and returns false. The caller must limit the length
// of the line left in `pending`.
bool FeedLines(std::string* pending, std::string_view bytes,
               const std::function<bool(std::string_view line)>& take);

}  // namespace atl::cli
