// Opens what the daemon knows of tenants, from its configuration.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/tenants/directory.h"

namespace atl::daemon {

// Reads the tenants' file and runs its tests. With the provider http it may be absent. Call only
// for a configuration with tenants.
Result<tenants::TenantsFile> ReadTenants(const Config& config);

// Opens the directory of all keys, and fills `table`, which must outlive it. Null: the
// configuration has no tenants. `secret` hides keys behind their ids.
Result<std::unique_ptr<tenants::Directory>> OpenDirectory(const Config& config, Loop& loop,
                                                          tenants::TenantTable& table,
                                                          const std::string& secret);

// Logs what the file warns of.
void WarnOfTenants(const tenants::TenantsFile& file);

// Checks the file for --check-config. A file that this user cannot read is only warned of.
Status CheckTenantsFile(const Config& config);

}  // namespace atl::daemon
