// inspect and rm of objects with a route of their own: volumes, snapshots, pools.
#pragma once

#include <string>

#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Sends `method`, GET or DELETE, to `path` and each name. Prints the answer of a GET, or the name
// that was deleted. A failure is reported and does not stop the others. Returns the last error.
Status ForEachOf(const Settings& settings, const std::string& path, const Words& names,
                 const std::string& method);

}  // namespace atl::cli
