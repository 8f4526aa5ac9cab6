// inspect and rm of what has a name or an id and a route of its own: volumes, snapshots, pools.
#pragma once

#include <string>

#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Sends `method`, GET or DELETE, to `path` and each name in turn; prints what it is told, or what
// is gone. One that fails is reported and does not keep the others. The last error.
Status ForEachOf(const Settings& settings, const std::string& path, const Words& names,
                 const std::string& method);

}  // namespace atl::cli
