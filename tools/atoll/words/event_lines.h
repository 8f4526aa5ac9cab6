// Cuts what a sandbox sends into the lines that its events are.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace atl::cli {

// Adds `bytes` to what is left in `pending`, and gives each whole line that is not empty, without
// its end, to `take`, until that returns false: then no more is wanted, and this is false, too.
// How long the line in `pending` may become is the caller's to say.
bool FeedLines(std::string* pending, std::string_view bytes,
               const std::function<bool(std::string_view line)>& take);

}  // namespace atl::cli
