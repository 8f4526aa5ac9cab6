// A store that enforces disk limits, for hosts whose file system does not: an XFS image file in the
// data directory, mounted with project quotas onto <data_dir>/store. `atolld storage init` makes
// the file; a spawner that finds one mounts it.
//
// Thread rule: stateless. As root.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

std::string StoreImagePath(const std::string& data_dir);

// A file as a block device, until the last descriptor and mount of it are gone.
struct LoopDevice {
  UniqueFd fd;
  std::string path;
};
// `image`: a descriptor open for reading and writing.
Result<LoopDevice> AttachLoop(int image);

// The image mounted, but nowhere: gone when the descriptor closes. kUnavailable: this kernel cannot
// enforce project quotas on XFS.
Result<UniqueFd> MountImage(const std::string& image);

// Whether something is mounted on `path`; false if there is no such path.
bool IsMountPoint(const std::string& path);
// Whether <data_dir>/store has layers or uppers.
Result<bool> StoreHasContent(const std::string& data_dir);

// In the mount namespace where everybody is to see it: nothing to do without an image, or with a
// file system on <data_dir>/store already. An image that cannot be mounted is an error: sandboxes
// without a limit in place of limited ones would be the alternative.
Status MountStore(const std::string& data_dir);
// The opposite, if what is mounted is the image.
Status UnmountStore(const std::string& data_dir);

}  // namespace atl::spawner
