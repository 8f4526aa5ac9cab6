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

// A file as a block device. It exists until its last descriptor and mount are closed.
struct LoopDevice {
  UniqueFd fd;
  std::string path;
};
// `image`: a descriptor open for reading and writing.
Result<LoopDevice> AttachLoop(int image);

// Mounts the image, detached: it is unmounted when the descriptor closes. kUnavailable: this kernel
// cannot enforce project quotas on XFS.
Result<UniqueFd> MountImage(const std::string& image);

// Returns whether something is mounted on `path`; false if there is no such path.
bool IsMountPoint(const std::string& path);
// Returns whether <data_dir>/store has layers or uppers.
Result<bool> StoreHasContent(const std::string& data_dir);

// Mounts the image in the mount namespace where everybody is to see it. Does nothing without an
// image, or if a file system is on <data_dir>/store already. An image that cannot be mounted is an
// error, because the sandboxes would run without their disk limits.
Status MountStore(const std::string& data_dir);
// Unmounts the store if what is mounted is the image.
Status UnmountStore(const std::string& data_dir);

}  // namespace atl::spawner
