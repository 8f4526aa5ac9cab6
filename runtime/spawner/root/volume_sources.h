// The sources of a sandbox's volumes. The spawner alone decides what is allowed: a named volume is
// a directory of its store, a host path must lie beneath one of its own --host-path, whatever the
// daemon asks.
//
// From the allowed directory on everything goes by descriptors. So nothing that is renamed or
// replaced by a link meanwhile leads elsewhere; another sandbox may share the tree and do that in a
// loop.
//
// Ids: what a sandbox writes must not belong to the host's root, nor to a user by chance. A named
// volume is mapped as uppers are: the reserved range is the sandbox's. In a host path, the
// sandbox's 0 is the owner of the directory (which an operator chose by chown), and its other ids
// are the reserved range. So a writable directory of root's is refused, and root's group is never
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
  // A detached mount: id-mapped, nosuid, nodev, private, and read-only if asked. Invalid for a
  // bucket, whose mount ObjectMounts makes.
  UniqueFd mount;
  bool directory = true;  // false: one file
  int bucket = -1;        // the bucket's mount, borrowed
};

// The following two functions enter the host's mount namespace for good, and may never return: call
// them in a process of its own (volume_work.h).

// Opens the sources in the order of `volumes`, for the slot whose ids begin at `base`. Makes sub
// paths and host directories that are missing. kPermissionDenied: not allowed here; kNotFound: no
// such named volume; kInvalidArgument: the sub path.
Result<std::vector<VolumeSource>> OpenVolumeSources(const Host& host,
                                                    const std::vector<wire::Volume>& volumes,
                                                    uid_t base);

// Tells whether a build could open the source, as far as that can be told without making anything:
// missing parts of the path stay missing.
Status CheckVolumeSource(const Host& host, const wire::Volume& volume);

// Returns the longest of `allowed` that is `path` or a directory above it; null: none. Pure.
const std::string* AllowedAbove(const std::vector<std::string>& allowed, const std::string& path);

}  // namespace atl::spawner
