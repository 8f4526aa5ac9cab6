// Images as people name them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {

// Returns what the server tells of the image.
Result<nlohmann::json> FindImage(Api& api, const std::string& name);

}  // namespace atl::cli
