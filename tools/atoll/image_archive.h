// Images as files: what export and push begin with.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/api.h"

namespace atl::cli {

// `form`: "oci" or "docker". Written to `to` as it comes; what came at `cancel_fd` ends it.
Status ReceiveArchive(Api& api, const std::string& image, const std::string& form, int to,
                      int cancel_fd);

}  // namespace atl::cli
