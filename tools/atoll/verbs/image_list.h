// Finds images by the names that people type.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {

// Returns the server's JSON of the image.
Result<nlohmann::json> FindImage(Api& api, const std::string& name);

}  // namespace atl::cli
