// To a registry, by way of skopeo.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/archives/archives.h"
#include "tools/atoll/archives/skopeo.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {

// `wanted` is of the form docker: skopeo reads that where it stands, and unpacks one of the form
// oci first, with owners that nobody may give. It is called `options.name` there, or else
// `options.image`.
Status PushArchive(Api& api, const ArchiveOf& wanted, const RegistryOptions& options);

}  // namespace atl::cli
