// Patterns of routes: a path of words, "{name}" for one segment, and at the end "{name:path}" for
// the rest. The names are those of upstream's routes, because metrics show them.
#pragma once

#include <string_view>
#include <vector>

namespace atl::api {

// Returns true if `path`, without its query, fits. A segment for "{name}" is not empty; the rest
// for
// "{name:path}" may be. `places`, unless null, gets what stands for each of them, as views into
// `path`; its contents are unspecified if the path does not fit.
bool FitsPattern(std::string_view pattern, std::string_view path,
                 std::vector<std::string_view>* places = nullptr);

}  // namespace atl::api
