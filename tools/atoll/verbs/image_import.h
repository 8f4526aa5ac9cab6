// Sends an image archive to the server; the last step of import, build and pull.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/archives/archives.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

// Imports a file, the directory of an OCI layout, or an object. An empty `name` means the archive's
// own. Prints what it imported, and returns the image.
Result<nlohmann::json> ImportImage(const Settings& settings, const ArchivePlace& place,
                                   const std::string& name);
// Adds a name to an image; returns the image under that name.
Result<nlohmann::json> GiveName(Api& api, const std::string& image, const std::string& name);

}  // namespace atl::cli
