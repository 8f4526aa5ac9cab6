// Where a sandbox's volumes come from. The spawner decides alone: a named volume is a directory of
// its store, a host path must lie beneath one of its own --host-path, whatever the daemon asks.
//
// Everything goes by descriptors from the allowed directory on, so that nothing that is renamed or
// replaced by a link meanwhile (another sandbox may share the tree and do that in a loop) leads
// elsewhere.
//
// Ids. What a sandbox writes must not belong to the host's root nor to a user by chance. A named
// volume is mapped as uppers are: the reserved range is the sandbox's. In a host path, the
// sandbox's 0 is the owner of the directory (which an operator chose by chown), its other ids are
// the reserved range. So a writable directory of root's is refused, and root's group is never
// handed out.
#pragma once

#include <sys/types.h>

#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/wire/volume.h"

namespace atl::spawner {

struct VolumeSource {
  // Detached; id-mapped, nosuid, nodev, private, and read-only if asked. Of a bucket, which is
  // ObjectMounts' business, none.
  UniqueFd mount;
  bool directory = true;  // false: one file
  int bucket = -1;        // its mount, borrowed
};

// Both enter the host's mount namespace for good, and may never come back: they are for a process
// of their own (volume_work.h).

// In the order of `volumes`, for the slot whose ids begin at `base`. Sub paths and host directories
// that are missing are made. kPermissionDenied: not allowed here; kNotFound: no such named volume;
// kInvalidArgument: the sub path.
Result<std::vector<VolumeSource>> OpenVolumeSources(const Host& host,
                                                    const std::vector<wire::Volume>& volumes,
                                                    uid_t base);

// Whether a build could open it, as far as can be told without making anything: what is missing of
// the path stays so.
Status CheckVolumeSource(const Host& host, const wire::Volume& volume);

// Pure. The longest of `allowed` that is `path` or a directory above it; null: none.
const std::string* AllowedAbove(const std::vector<std::string>& allowed, const std::string& path);

}  // namespace atl::spawner
