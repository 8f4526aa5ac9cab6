// Images as people name them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/api.h"

namespace atl::cli {

// What the server tells of it. kNotFound offers the one that may have been meant.
Result<nlohmann::json> FindImage(Api& api, const std::string& name);
// `error`, which says that there is no such image, with that offer.
Error OfferImage(Api& api, const std::string& name, const Error& error);

}  // namespace atl::cli
