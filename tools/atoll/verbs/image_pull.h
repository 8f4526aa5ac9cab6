// From a registry: what an image has that is not here, by way of skopeo.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/archives/skopeo.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

// Fetches `options.image`, and has `take` import it: an OCI layout's directory, without the layers
// that the server has, which is gone when this returns. What has come whole of one that is
// interrupted is kept (kept_layers.h), and the next pull does not fetch it.
Status PullImage(const Settings& settings, const RegistryOptions& options,
                 const std::function<Status(const std::string& layout)>& take);

}  // namespace atl::cli
