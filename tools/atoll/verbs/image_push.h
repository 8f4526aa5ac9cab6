// Pushes images to a registry, with skopeo.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/archives/archives.h"
#include "tools/atoll/archives/skopeo.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {

// Pushes an archive as `options.name`, or as `options.image` if that is empty. `wanted.form` must
// be "docker": skopeo reads that form in place, but unpacks an OCI archive first, which fails
// without the right to change owners.
Status PushArchive(Api& api, const ArchiveOf& wanted, const RegistryOptions& options);

}  // namespace atl::cli
