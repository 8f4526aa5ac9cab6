// The end of a sandbox.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/api.h"
#include "tools/atoll/exit.h"

namespace atl::cli {

// How it ended; nothing while it runs. kNotFound: it is gone.
Result<std::optional<Exit>> EndOf(Api& api, const std::string& sandbox_id);
// The same of one that was there a moment ago: the error says that it went away.
Result<std::optional<Exit>> EndOfSeen(Api& api, const std::string& sandbox_id);

}  // namespace atl::cli
