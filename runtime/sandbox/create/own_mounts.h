// The mounts of a request by a tenant. A request names volumes, paths of the host and object stores
// as the host's requests do; a tenant has volumes of its own, and only the paths and stores that
// its definition allows.
//
// Pure functions, for any thread.
#pragma once

#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/attempt.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/tenant.h"

namespace atl::sandbox {

// Returns the mounts as the rest of the daemon knows them: with the directories of the tenant's
// volumes, and with the allowed directory as the source of a path of the host. The path within it
// becomes the sub path, because no link may lead from one tenant's directory into that of another,
// and a sub path does not leave its source. `tenant` null: its definition is gone, and allows
// nothing. kPermissionDenied: the definition does not allow it.
tl::expected<std::vector<VolumeMount>, CreateError> OwnMounts(const tenants::Caller& caller,
                                                              const tenants::Tenant* tenant,
                                                              std::vector<VolumeMount> mounts);

}  // namespace atl::sandbox
