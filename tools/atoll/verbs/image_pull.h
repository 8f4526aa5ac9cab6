// Pulls images from a registry, with skopeo: only the layers that the server lacks.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/archives/skopeo.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

// Fetches `options.image` and calls `take` to import it. `take` gets the directory of an OCI layout
// without the layers that the server has; the directory is removed when this returns. After an
// interrupt the complete layers are kept (kept_layers.h), and the next pull does not fetch them
// again.
Status PullImage(const Settings& settings, const RegistryOptions& options,
                 const std::function<Status(const std::string& layout)>& take);

}  // namespace atl::cli
