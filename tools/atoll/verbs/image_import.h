// Sends an image archive to the server: what import, build and pull end with.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/archives/archives.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

// A file, an OCI layout's directory or an object. `name` empty: the archive's own. Says what it
// was; the image.
Result<nlohmann::json> ImportImage(const Settings& settings, const ArchivePlace& place,
                                   const std::string& name);
// Another name for an image; the image under that name.
Result<nlohmann::json> GiveName(Api& api, const std::string& image, const std::string& name);

}  // namespace atl::cli
